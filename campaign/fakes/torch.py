# SPDX-License-Identifier: Apache-2.0
"""The part of PyTorch that a campaign calls, for its rehearsal: nothing is computed, but berth's
functions are called as PyTorch calls them."""

import ctypes
import itertools
import types


class Tensor:
    """Each operation returns a tensor."""

    size = 0

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self):
        return iter((self, self, self))

    def __getitem__(self, _):
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __getitem__

    def numel(self):
        return self.size

    def item(self):
        return 0.5

    def copy_(self, source, non_blocking):
        assert isinstance(source, Tensor) and non_blocking


def ones(size, dtype, device="cpu", pin_memory=False):
    assert dtype is uint8 and device in ("cpu", "cuda") and pin_memory in (False, True)
    tensor = Tensor()
    tensor.size = size
    return tensor


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Tensor()


class Stream:
    cuda_stream = 7

    def wait_stream(self, other):
        assert isinstance(other, Stream)


class Entered:
    def __init__(self, stream):
        assert isinstance(stream, Stream)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Hooks:
    def set_record_stream_fn(self, address):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)(None, None)

    def set_reset_fn(self, address):
        ctypes.CFUNCTYPE(None)(address)()


class CUDAPluggableAllocator:
    def __init__(self, path, allocate, free):
        functions = ctypes.CDLL(path)
        self.allocate = getattr(functions, allocate)
        self.allocate.restype = ctypes.c_void_p
        self.allocate.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free = getattr(functions, free)
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self):
        return Hooks()


def change_current_allocator(allocator):
    block = allocator.allocate(1 << 20, 0, None)
    assert block
    allocator.free(block, 1 << 20, 0, None)


reserved = [0]
addresses = itertools.count(1)


def raw_alloc(size, stream):
    assert size > 0 and stream == 7
    reserved[0] += size
    return next(addresses)


def nothing(*_, **__):
    return None


uint8 = None
use_deterministic_algorithms = nothing
cuda = types.SimpleNamespace(
    synchronize=nothing, init=nothing, is_available=lambda: True, Stream=Stream,
    current_stream=Stream, stream=Entered, empty_cache=nothing, reset_peak_memory_stats=nothing,
    max_memory_reserved=lambda: reserved[0],
    mem_get_info=lambda: (1 << 30, 2 << 30),
    memory=types.SimpleNamespace(
        CUDAPluggableAllocator=CUDAPluggableAllocator,
        change_current_allocator=change_current_allocator,
    ),
)  # fmt: skip
_C = types.SimpleNamespace(
    _cuda_cudaCachingAllocator_raw_alloc=raw_alloc, _cuda_cudaCachingAllocator_raw_delete=nothing
)
