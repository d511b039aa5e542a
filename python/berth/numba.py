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
    """Makes berth the memory manager of Numba in this process."""
    cuda.set_memory_manager(MemoryManager)


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory from a pool of its own on each device. Host memory stays Numba's.

    Numba does not tell which streams use a block. So a freed block serves again after the device
    was idle, as with cuMemFree: frees are collected, and one wait serves many.
    """

    def __init__(self, *args: typing.Any, **options: typing.Any):
        super().__init__(*args, **options)
        self._lock = threading.RLock()
        self._pool: Pool | None = None
        self._memory: RawMemory | None = None
        self._live: dict[int, int] = {}
        self._pending: dict[int, int] = {}
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
            if address:
                self._live[address] = size
        pointer = ctypes.c_void_p(address)
        free = _Free(weakref.ref(self), address)
        return numba_driver.MemoryPointer(
            weakref.proxy(self.context), pointer, size, finalizer=free
        )

    def free(self, address: int) -> None:
        """Frees a block. It is reused once the device has been idle."""
        with self._lock:
            size = self._live.pop(address, None)
            if size is None:
                return  # allocated before a reset
            self._pending[address] = size
            if self._is_deferred:
                return
            if (
                len(self._pending) >= PENDING_BLOCKS_MAX
                or sum(self._pending.values()) >= PENDING_BYTES_MAX
            ):
                self.finish_frees()

    def finish_frees(self) -> None:
        """Waits for the device, and frees the collected blocks.

        If the wait fails, as during the capture of a graph, a later call retries.
        """
        with self._lock:
            if not self._pending:
                return
            try:
                numba_driver.driver.cuCtxSynchronize()
            except numba_driver.CudaAPIError:
                return
            pending, self._pending = self._pending, {}
            for address in pending:
                self._memory.free(address, None)

    def reset(self) -> None:
        """Frees all memory of the context."""
        super().reset()
        with self._lock:
            self._pending.update(self._live)
            self._live.clear()
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

    def __init__(self, manager: weakref.ref[MemoryManager], address: int):
        self.manager = manager
        self.address = address

    def __call__(self) -> None:
        manager = self.manager()
        if manager is not None:
            manager.free(self.address)


#: The attribute that NUMBA_CUDA_MEMORY_MANAGER reads.
_numba_memory_manager = MemoryManager
