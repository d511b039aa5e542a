# SPDX-License-Identifier: Apache-2.0
"""The memory of a CUDA device, and its private pools."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import typing

from berth import _abi, errors
from berth._arguments import checked_flag, checked_size, checked_text
from berth._handle import ALIVE, Held, Owned, RuntimeHandle
from berth.device import Device
from berth.memory import Allocator
from berth.stream import Stream, live_stream

_KIND = "pool"


@dataclasses.dataclass(frozen=True)
class MemoryProperties:
    """Properties of a live block of device memory."""

    #: Whether it lies in one physical allocation, and stays there.
    is_contiguous: bool
    #: Whether another process can import it (MemoryConnection).
    is_exportable: bool
    #: Whether the allocation was created for GPUDirect RDMA.
    is_rdma_capable: bool
    #: Whether the allocation can have a fabric handle.
    is_fabric_exportable: bool
    #: The physical allocation; 0 and 0 if the pool is not contiguous.
    segment: int
    segment_bytes: int


@dataclasses.dataclass(frozen=True)
class MappedRange:
    """A range of device addresses that is mapped: `on_map` and `on_unmap` of Runtime."""

    pointer: int
    bytes: int
    #: The size of the physical allocations that make up the range.
    piece_bytes: int
    device: Device
    #: Whether the same memory is also mapped at another address.
    is_alias: bool

    @classmethod
    def _of(cls, value: _abi.MappedRange) -> MappedRange:
        device = Device(f"cuda:{value.device}")
        return cls(value.data, value.bytes, value.piece_bytes, device, bool(value.is_alias))


class _DeviceAllocator(Allocator):
    """The base of a device's allocator and its private pools."""

    def __init__(self, runtime: RuntimeHandle, pointer: ctypes.c_void_p, default: Stream):
        super().__init__(runtime, pointer)
        self._default = default

    def set_limits(self, bytes_max: int | None = None, soft_bytes_max: int | None = None) -> None:
        """Limits reserved memory from now on; None: no limit."""
        hard, soft = (
            _abi.NO_LIMIT if limit is None else checked_size(limit, name)
            for limit, name in ((bytes_max, "bytes_max"), (soft_bytes_max, "soft_bytes_max"))
        )
        _abi.library.berth_allocator_set_limits(self._get(), hard, soft)

    def owns(self, pointer: int) -> bool:
        """Whether the address is memory of this allocator, live or not. No driver call."""
        owns = ctypes.c_bool()
        _abi.library.berth_allocator_owns(
            self._get(), checked_size(pointer, "pointer"), ctypes.byref(owns)
        )
        return owns.value

    def properties(self, pointer: int) -> MemoryProperties | None:
        """The properties of the live block that contains the address; None if there is none."""
        found = _abi.MemoryProperties()
        _abi.library.berth_allocator_get_properties(
            self._get(), checked_size(pointer, "pointer"), ctypes.byref(found)
        )
        if not found.flags & _abi.MEMORY_IS_LIVE:
            return None
        return MemoryProperties(
            bool(found.flags & _abi.MEMORY_IS_CONTIGUOUS),
            bool(found.flags & _abi.MEMORY_IS_EXPORTABLE),
            bool(found.flags & _abi.MEMORY_IS_RDMA_CAPABLE),
            bool(found.flags & _abi.MEMORY_IS_FABRIC_EXPORTABLE),
            found.segment or 0,
            found.segment_bytes,
        )

    def _default_stream(self) -> Stream:
        return self._default


class DeviceMemory(_DeviceAllocator):
    """The caching allocator of a device's memory."""

    def create_pool(
        self,
        name: str,
        *,
        for_graphs: bool = False,
        contiguous: bool = False,
        fabric: bool = False,
        bytes_max: int = 0,
        soft_bytes_max: int = 0,
    ) -> Pool:
        """Creates a private pool; 0: limited only by the device.

        `contiguous`: each block lies in one physical allocation, which stays at its address: for
        MemoryConnection, network cards and resident kernels. Such a pool cannot sleep. `fabric`,
        with `contiguous`: memory can also have fabric handles, for other machines.
        """
        flags = _abi.MEMORY_POOL_FOR_GRAPHS if checked_flag(for_graphs, "for_graphs") else 0
        flags |= _abi.MEMORY_POOL_CONTIGUOUS if checked_flag(contiguous, "contiguous") else 0
        flags |= _abi.MEMORY_POOL_FABRIC if checked_flag(fabric, "fabric") else 0
        options = _abi.MemoryPoolOptions(
            name=checked_text(name, "name"),
            flags=flags,
            bytes_reserved_max=checked_size(bytes_max, "bytes_max"),
            bytes_reserved_soft_max=checked_size(soft_bytes_max, "soft_bytes_max"),
        )
        pool = ctypes.c_void_p()
        with self._runtime.beginning(_KIND) as runtime:
            _abi.library.berth_memory_pool_create(
                runtime, self.device._value, ctypes.byref(options), ctypes.byref(pool)
            )
            return Pool(self, pool)

    def sleep(self, name: str, *, keep_content: bool = False) -> int:
        """Puts all pools of this name to sleep; returns the number of bytes released."""
        released = ctypes.c_size_t()
        _abi.library.berth_memory_pools_sleep(
            self._runtime.get(),
            self.device._value,
            checked_text(name, "name"),
            checked_flag(keep_content, "keep_content"),
            ctypes.byref(released),
        )
        return released.value

    def wake(self, name: str) -> None:
        """Wakes all pools of this name."""
        _abi.library.berth_memory_pools_wake(
            self._runtime.get(), self.device._value, checked_text(name, "name")
        )


class Pool(_DeviceAllocator):
    """A private pool of device memory, with its own name, limits and lifetime.

    It is closed by `close()`, or when nothing refers to it and to its blocks.
    """

    def __init__(self, parent: DeviceMemory, pool: ctypes.c_void_p):
        allocator = ctypes.c_void_p()
        _abi.library.berth_memory_pool_get_allocator(pool, ctypes.byref(allocator))
        super().__init__(parent._runtime, allocator, parent._default)
        self._parent = parent
        self._pool = Owned(pool, _abi.library.berth_memory_pool_close, self._runtime.get())
        self._runtime.begin(_KIND, self)

    @property
    def name(self) -> str:
        """The name with the device: `cuda:0/weights`."""
        name = ctypes.c_char_p()
        _abi.library.berth_memory_pool_get_name(self._open(), ctypes.byref(name))
        return (name.value or b"").decode()

    def sleep(self, *, keep_content: bool = False) -> int:
        """Releases all physical memory; returns its number of bytes. Addresses stay reserved."""
        released = ctypes.c_size_t()
        _abi.library.berth_memory_pool_sleep(
            self._open(), checked_flag(keep_content, "keep_content"), ctypes.byref(released)
        )
        return released.value

    def wake(self) -> None:
        """Maps the same amount of memory again, at the same addresses."""
        _abi.library.berth_memory_pool_wake(self._open())

    @property
    def is_asleep(self) -> bool:
        asleep = ctypes.c_bool()
        _abi.library.berth_memory_pool_is_asleep(self._open(), ctypes.byref(asleep))
        return asleep.value

    @contextlib.contextmanager
    def use(self, stream: Stream | None = None) -> typing.Iterator[Pool]:
        """Routes requests of this thread, or those on `stream`, to this pool."""
        scope = ctypes.c_void_p()
        if stream is None:
            _abi.library.berth_memory_pool_scope_enter(self._open(), ctypes.byref(scope))
        else:
            _abi.library.berth_memory_pool_scope_enter_stream(
                self._open(), live_stream(stream), ctypes.byref(scope)
            )
        try:
            yield self
        finally:
            _abi.library.berth_memory_pool_scope_leave(scope)

    def close(self) -> None:
        """Closes the pool now, or once other threads have returned from their calls.

        Live blocks stay valid. Repeated: no effect.
        """
        if not self._runtime.end(_KIND, self):
            return
        failures = self._pool.failures
        self._pool = Owned.closed()  # closes the pool, unless another thread refers to it
        if failures:
            raise failures[0]

    def _open(self) -> ctypes.c_void_p:
        self._runtime.get()
        pool = self._pool
        if not pool:
            raise errors.InvalidArgument("the pool is closed")
        return pool

    def _get(self) -> ctypes.c_void_p:
        return Held(self._pointer, self._open())

    def _of_blocks(self, runtime: ctypes.c_void_p | None) -> ctypes.c_void_p:
        return self._parent._of_blocks(runtime)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self, alive=ALIVE):
        if alive and getattr(self, "_pool", None):
            self.close()
