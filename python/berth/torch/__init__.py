# SPDX-License-Identifier: Apache-2.0
"""berth as the allocator of PyTorch.

    import berth.torch

    berth.torch.enable()  # before the first CUDA tensor

`python -m berth.torch train.py` enables it for an unchanged program.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import typing

from berth import Device, Runtime, _abi, errors
from berth._arguments import checked_flag
from berth._library import beside
from berth.torch import _full

__all__ = ["Pool", "enable", "is_enabled", "runtime"]

#: The hooks of PyTorch's allocator, and their functions in libberth_torch.so.
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
    #: Whether the full allocator is enabled; None before enable() has succeeded.
    is_full: bool | None = None
    #: PyTorch's object of the plug-in.
    allocator: typing.Any = None
    #: Whether torch_memory_saver uses pools of berth, which need PyTorch's own allocator.
    is_saver = False


# Objects that are never freed, because PyTorch holds addresses in them.


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(beside("libberth_torch.so"))
    library.berth_torch_runtime.restype = ctypes.c_void_p
    library.berth_torch_runtime.argtypes = []
    return library


@functools.cache
def runtime() -> Runtime:
    """The runtime of PyTorch's memory, for statistics, limits and pools.

    The first call creates it, and reads the environment variables of berth.
    """
    pointer = _library().berth_torch_runtime()
    if not pointer:
        reason = _abi.library.berth_last_error_message().decode(errors="replace")
        raise errors.InvalidArgument(reason)
    return Runtime._borrow(pointer)


def _pluggable_allocator(allocate: str) -> typing.Any:
    """A CUDAPluggableAllocator with this allocation function of the library."""
    torch = _torch()
    runtime()  # a wrong option is reported here
    return torch.cuda.memory.CUDAPluggableAllocator(
        _library()._name, allocate, "berth_torch_free"
    )


@functools.cache
def _allocator_of_pools() -> typing.Any:
    return _pluggable_allocator("berth_torch_alloc")


def is_enabled() -> bool:
    """Whether enable() has succeeded in this process."""
    return _State.is_full is not None


def enable(*, full: bool = False) -> None:
    """Makes berth the allocator of all CUDA tensors of this process. Repeated: no effect.

    Must be called before the first CUDA tensor: afterwards PyTorch refuses, by a RuntimeError.
    InvalidArgument after berth.torch.memory_saver.enable().

    `full`: as an allocator of PyTorch's own kind, with memory statistics, snapshots and
    torch.OutOfMemoryError. It is compiled for the installed PyTorch at the first use, by g++ or by
    what CXX names. NotSupported: it cannot be compiled.
    """
    checked_flag(full, "full")
    if _State.is_saver:
        raise errors.InvalidArgument(
            "berth is the backend of torch_memory_saver, whose regions need PyTorch's own allocator"
        )
    if is_enabled():
        if full != _State.is_full:
            raise errors.InvalidArgument(f"berth is enabled with full={_State.is_full}")
        return
    if full:
        torch = _torch()
        runtime()  # a wrong option is reported here
        _full.enable(torch, _library())
        _State.is_full = True
        return
    allocator = _pluggable_allocator("berth_torch_alloc_or_throw")
    hooks = allocator.allocator()
    for setter, function in HOOKS.items():
        address = ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value
        getattr(hooks, setter)(address)
    try:
        _torch().cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise RuntimeError(
            f"{error}: berth.torch.enable() must be called before the first CUDA tensor"
        ) from None
    _State.allocator = allocator
    _State.is_full = False


class Pool:
    """Memory of PyTorch's own allocator that comes from a pool of berth, which can sleep.

        weights = berth.torch.Pool("weights", "cuda:0")
        with weights.use():
            model = load().cuda()
        weights.sleep(keep_content=True)  # the addresses stay
        weights.wake()

    For programs that keep PyTorch's allocator: berth gets the requests for its segments. PyTorch
    caches segments and does not know that they sleep, so the pool falls asleep only outside of
    use(), and use() is refused while it sleeps.
    """

    def __init__(self, name: str, device: Device | str = "cuda", **options: typing.Any):
        """`options`: those of berth.DeviceMemory.create_pool()."""
        if is_enabled():
            raise errors.NotSupported(
                "berth is the allocator of all tensors; accepted: pools of berth.torch.runtime()"
            )
        torch = _torch()
        self._torch = torch
        allocator = _allocator_of_pools()
        self.pool = runtime().memory(device).create_pool(name, **options)
        #: The torch.cuda.MemPool.
        self.mem_pool = torch.cuda.MemPool(allocator.allocator())
        self._lock = threading.Lock()
        self._uses = 0

    @contextlib.contextmanager
    def use(self) -> typing.Iterator[Pool]:
        """New tensors of the calling thread come from the pool. InvalidArgument while it sleeps."""
        with self._lock:
            if self.pool.is_asleep:
                raise errors.InvalidArgument(f"{self.pool.name} is asleep; wake() it first")
            self._uses += 1
        try:
            with self.pool.use(), self._torch.cuda.use_mem_pool(self.mem_pool):
                yield self
        finally:
            with self._lock:
                self._uses -= 1

    def sleep(self, *, keep_content: bool = False) -> int:
        """Releases all physical memory; returns its number of bytes. Addresses stay reserved.

        InvalidArgument inside of use(), on any thread.
        """
        with self._lock:
            if self._uses > 0:
                raise errors.InvalidArgument(f"{self.pool.name} is in use(); leave it first")
            return self.pool.sleep(keep_content=keep_content)

    def wake(self) -> None:
        """Maps the same amount of memory again, at the same addresses."""
        self.pool.wake()


def _torch() -> typing.Any:
    import torch

    if torch.version.cuda is None:
        raise errors.NotSupported(f"this PyTorch ({torch.__version__}) is built without CUDA")
    return torch
