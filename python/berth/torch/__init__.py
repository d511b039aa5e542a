# SPDX-License-Identifier: Apache-2.0
"""berth as the allocator of PyTorch.

    import berth.torch

    berth.torch.enable()  # before the first CUDA tensor

`python -m berth.torch train.py` does it for a program that is not changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import typing

from berth import Device, Runtime, _abi, errors
from berth._library import beside

__all__ = ["Pool", "enable", "is_enabled", "runtime"]

#: The hooks of PyTorch's allocator, and the functions of libberth_torch.so that get them.
HOOKS = {
    "set_init_fn": "berth_torch_init",
    "set_reset_fn": "berth_torch_reset",
    "set_memory_fraction_fn": "berth_torch_memory_fraction",
    "set_base_alloc_fn": "berth_torch_base_alloc",
    "set_record_stream_fn": "berth_torch_record_stream",
    "set_begin_allocate_to_pool": "berth_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "berth_torch_end_allocate_to_pool",
    "set_release_pool": "berth_torch_release_pool",
}


class _State:
    """What this process has made. PyTorch holds addresses in it, so none of it is given up."""

    path: str = ""
    library: ctypes.CDLL | None = None
    runtime: Runtime | None = None
    allocator: typing.Any = None
    for_pools: typing.Any = None


def _library() -> ctypes.CDLL:
    if _State.library is None:
        _State.path = beside("libberth_torch.so")
        library = ctypes.CDLL(_State.path)
        library.berth_torch_runtime.restype = ctypes.c_void_p
        library.berth_torch_runtime.argtypes = []
        _State.library = library
    return _State.library


def runtime() -> Runtime:
    """The runtime whose memory PyTorch gets: its statistics, limits and pools.

    The first call creates it, and reads the environment variables of berth.
    """
    if _State.runtime is None:
        pointer = _library().berth_torch_runtime()
        if not pointer:
            reason = _abi.library.berth_last_error_message().decode(errors="replace")
            raise errors.InvalidArgument(reason)
        _State.runtime = Runtime._borrow(pointer)
    return _State.runtime


def is_enabled() -> bool:
    """Whether enable() has succeeded in this process."""
    return _State.allocator is not None


def enable() -> None:
    """Makes berth the allocator of all CUDA tensors of this process. Repeated: no effect.

    Must be called before the first CUDA tensor: afterwards PyTorch refuses, by a RuntimeError.
    """
    if is_enabled():
        return
    torch = _torch()
    runtime()  # a wrong option is reported here
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        _State.path, "berth_torch_alloc_or_throw", "berth_torch_free"
    )
    hooks = allocator.allocator()
    for setter, function in HOOKS.items():
        address = ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value
        getattr(hooks, setter)(address)
    torch.cuda.memory.change_current_allocator(allocator)
    _State.allocator = allocator


class Pool:
    """Memory of PyTorch's own allocator that comes from a pool of berth, which can sleep.

        weights = berth.torch.Pool("weights", "cuda:0")
        with weights.use():
            model = load().cuda()
        weights.sleep(keep_content=True)  # the addresses stay
        weights.wake()

    For programs that keep PyTorch's allocator: berth gets the requests for its segments.
    """

    def __init__(self, name: str, device: Device | str = "cuda", **options: typing.Any):
        """`options`: those of berth.DeviceMemory.create_pool()."""
        torch = _torch()
        self._torch = torch
        if _State.for_pools is None:
            runtime()
            _State.for_pools = torch.cuda.memory.CUDAPluggableAllocator(
                _State.path, "berth_torch_alloc", "berth_torch_free"
            )
        self.pool = runtime().memory(device).create_pool(name, **options)
        #: The torch.cuda.MemPool.
        self.mem_pool = torch.cuda.MemPool(_State.for_pools.allocator())

    @contextlib.contextmanager
    def use(self) -> typing.Iterator[Pool]:
        """New tensors of the calling thread come from the pool."""
        with self.pool.use(), self._torch.cuda.use_mem_pool(self.mem_pool):
            yield self

    def sleep(self, *, keep_content: bool = False) -> int:
        """Returns all physical memory to the driver; the number of bytes. Addresses stay valid."""
        return self.pool.sleep(keep_content=keep_content)

    def wake(self) -> None:
        """Obtains the same amount of memory again, at the same addresses."""
        self.pool.wake()


def _torch() -> typing.Any:
    import torch

    if torch.version.cuda is None:
        raise errors.NotSupported(f"this PyTorch ({torch.__version__}) is built without CUDA")
    return torch
