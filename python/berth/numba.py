# SPDX-License-Identifier: Apache-2.0
"""berth as the memory manager of Numba: its External Memory Management interface.

    import berth.numba

    berth.numba.enable()  # before Numba's first use of a device

NUMBA_CUDA_MEMORY_MANAGER=berth.numba enables it for an unchanged program.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import typing
import weakref

from numba import cuda
from numba.cuda.cudadrv import driver as numba_driver

from berth import Device, OutOfMemory, Pool, Runtime, errors
from berth._raw import RawMemory

__all__ = ["MemoryManager", "enable", "runtime"]

#: The number and bytes of freed blocks from which one wait for the device frees all.
PENDING_BLOCKS_MAX = 64
PENDING_BYTES_MAX = 256 << 20

_OUT_OF_MEMORY = 2


@functools.cache
def runtime() -> Runtime:
    """The runtime of Numba's memory; the first call creates it."""
    return Runtime()


def enable() -> None:
    """Makes berth the memory manager of Numba in this process.

    Errors: NotSupported if Numba has used a device, because its contexts keep their manager.
    """
    used = next(_used_contexts(), None)
    if used is not None and not isinstance(used.memory_manager, MemoryManager):
        raise errors.NotSupported(
            "berth.numba.enable() after Numba's first use of a device, whose memory manager is "
            f"{type(used.memory_manager).__name__}; accepted: before it"
        )
    cuda.set_memory_manager(MemoryManager)


def _used_contexts() -> typing.Iterator[numba_driver.Context]:
    for device in list(numba_driver.driver.devices.values()):
        if device.primary_context is not None:
            yield device.primary_context


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory from a pool of its own on each device. Host memory stays Numba's.

    Numba does not report which streams use a block. So a freed block is reused after the device
    has been idle, as with cuMemFree: frees are collected, and one wait serves many.
    """

    def __init__(self, *args: typing.Any, **options: typing.Any):
        super().__init__(*args, **options)
        self._lock = threading.RLock()
        self._pool: Pool | None = None
        self._memory: RawMemory | None = None
        self._live: set[_Free] = set()
        self._pending: dict[int, int] = {}  # address to size
        self._is_deferred = 0

    @property
    def interface_version(self) -> int:
        return 1

    def initialize(self) -> None:
        if self._memory is not None:
            return
        device = self._device()
        self._pool = runtime().memory(device).create_pool("numba")
        self._memory = RawMemory(self._pool, str(device))
        capacity = runtime().memory_info(device).bytes_total
        if self.deallocations.memory_capacity == 0:
            self.deallocations.memory_capacity = capacity

    def memalloc(self, size: int) -> numba_driver.MemoryPointer:
        """Allocates device memory that every stream may use."""
        with self._lock:
            try:
                address = self._memory.allocate(size, 0)
            except OutOfMemory:
                self.finish_frees()
                try:
                    address = self._memory.allocate(size, 0)
                except OutOfMemory as error:
                    raise numba_driver.CudaAPIError(_OUT_OF_MEMORY, str(error)) from None
            free = _Free(weakref.ref(self), address, size)
            if address:
                self._live.add(free)
        # As in Numba's own manager: arrays refer weakly to the pointer in `allocations`, so that
        # those of a context that was reset free nothing.
        pointer = numba_driver.AutoFreePointer(
            weakref.proxy(self.context), ctypes.c_void_p(address), size, finalizer=free
        )
        self.allocations[free] = pointer
        return pointer.own()

    def free(self, block: _Free) -> None:
        """Frees a block. It is reused once the device has been idle."""
        with self._lock:
            self.allocations.pop(block, None)
            if block not in self._live:
                return  # it has no memory
            self._live.remove(block)
            self._pending[block.address] = block.size
            if self._is_deferred:
                return
            if (
                len(self._pending) >= PENDING_BLOCKS_MAX
                or sum(self._pending.values()) >= PENDING_BYTES_MAX
            ):
                self.finish_frees()

    def finish_frees(self) -> None:
        """Waits for the device of the blocks, and frees those that were collected.

        If the device cannot be waited for, as while a graph is captured, a later call retries.
        """
        with self._lock:
            if not self._pending or not self._wait_for_device():
                return
            pending, self._pending = self._pending, {}
            for address in pending:
                self._memory.free(address, None)

    def _wait_for_device(self) -> bool:
        driver = numba_driver.driver
        try:
            # A wait for a context ends the capture of its streams.
            if self._memory.is_capturing():
                return False
            driver.cuCtxPushCurrent(self.context.handle)  # frees come from any thread and device
            try:
                driver.cuCtxSynchronize()
            finally:
                driver.pop_active_context()
        except (numba_driver.CudaAPIError, errors.Error):
            return False  # the device has failed
        return True

    def reset(self) -> None:
        """Frees all memory of the context."""
        with self._lock:
            super().reset()  # ends the pointers, which free their blocks
            self.finish_frees()
            if self._pool is not None:
                self._pool.trim()

    @contextlib.contextmanager
    def defer_cleanup(self) -> typing.Iterator[None]:
        """Neither frees nor waits within the `with` block."""
        with super().defer_cleanup():
            self._is_deferred += 1
            try:
                yield
            finally:
                self._is_deferred -= 1

    def get_memory_info(self) -> numba_driver.MemoryInfo:
        info = runtime().memory_info(self._device())
        return numba_driver.MemoryInfo(free=info.bytes_free, total=info.bytes_total)

    def _device(self) -> Device:
        device = self.context.device
        # For a context of other code, Numba has only the handle.
        return Device("cuda", int(getattr(device, "id", device)))

    def get_ipc_handle(self, memory: typing.Any) -> typing.NoReturn:
        raise errors.NotSupported(
            "an IPC handle of memory that berth maps: CUDA has none for it. Leave the arrays that "
            "other processes open to Numba's own memory manager"
        )


class _Free:
    """The finalizer of a block, without a reference to its memory manager."""

    def __init__(self, manager: weakref.ref[MemoryManager], address: int, size: int):
        self.manager = manager
        self.address = address
        self.size = size

    def __call__(self) -> None:
        manager = self.manager()
        if manager is not None:
            manager.free(self)


#: The attribute that NUMBA_CUDA_MEMORY_MANAGER reads.
_numba_memory_manager = MemoryManager
