# SPDX-License-Identifier: Apache-2.0
"""Allocators and their blocks."""

from __future__ import annotations

import ctypes
import dataclasses
import typing

from berth import _abi, errors
from berth._arguments import checked_flag, checked_size, checked_time
from berth._handle import ALIVE, Held, RuntimeHandle, Unique
from berth.array import Array
from berth.device import Device, device_value
from berth.stream import NO_STREAM, Stream, live_stream

_KIND = "block"
#: The exports of a block before its first export.
_NO_EXPORTS: typing.Any = frozenset()


@dataclasses.dataclass(frozen=True)
class Gauge:
    """A gauge: its current value, and its peak since the last reset."""

    current: int
    peak: int


class MemoryCounters:
    """All counters of an allocator at one moment, by the names of `memory_counters.h`.

    `counters.bytes_reserved.peak` is a gauge, `counters.allocations` a total.
    """

    def __init__(self, gauges: _abi.MemoryGauges, totals: _abi.MemoryTotals):
        for name in _abi.GAUGES:
            gauge = getattr(gauges, name)
            setattr(self, name, Gauge(gauge.current, gauge.peak))
        for name in _abi.TOTALS:
            setattr(self, name, getattr(totals, name))

    def __repr__(self) -> str:
        names = [*_abi.GAUGES, *_abi.TOTALS]
        return f"MemoryCounters({', '.join(f'{name}={getattr(self, name)}' for name in names)})"

    def __getattr__(self, name: str) -> typing.Any:
        raise AttributeError(
            f'no counter "{name}"; there are {", ".join([*_abi.GAUGES, *_abi.TOTALS])}'
        )


class Block(Unique):
    """A block of memory. It is freed by `free()`, or with its last reference.

    The free is ordered after the work submitted to the stream of the block. A use on
    another stream must be recorded.
    """

    __slots__ = (
        "__weakref__",
        "_allocator",
        "_bytes",
        "_data",
        "_exports",
        "_runtime",
        "_stream",
    )

    def __init__(self, allocator: Allocator, size: int, stream: Stream | None):
        """A block without memory yet, which `_obtain()` gives it. It is live until then."""
        self._allocator = allocator
        self._bytes = size
        self._stream = stream
        self._exports: set[int] = _NO_EXPORTS
        #: Written by C, because the handler of a signal may raise as soon as C returns.
        self._data = ctypes.c_void_p()
        #: The berth_runtime, as long as the block is live.
        self._runtime: ctypes.c_void_p | None = allocator._runtime.get()
        allocator._runtime.begin(_KIND, self)

    def _obtain(self, function: typing.Callable[..., object], *arguments: object) -> Block:
        try:
            function(*arguments, ctypes.byref(self._data))
        finally:
            if not self._data:
                self._allocator._runtime.end(_KIND, self)
                self._runtime = None
        return self

    @property
    def pointer(self) -> int:
        """The address; 0 for a block of 0 bytes, and after `free()`."""
        return self._data.value or 0

    @property
    def bytes(self) -> int:
        """The size as requested."""
        return self._bytes

    @property
    def device(self) -> Device:
        """`cpu` for pinned and pageable host memory."""
        return self._allocator.device

    @property
    def is_pinned(self) -> bool:
        return self._allocator._is_pinned

    @property
    def stream(self) -> Stream | None:
        """The stream that orders the block; None for host memory."""
        return self._stream

    def record_stream(self, stream: Stream) -> None:
        """Reuse of the block waits for work submitted to `stream` until the block is freed."""
        value = live_stream(stream)
        if self._live():
            _abi.library.berth_allocator_record_stream(
                self._allocator._of_blocks(self._runtime), self._data, value
            )

    def record_use(self, stream: Stream) -> None:
        """Reuse of the block waits for work submitted to `stream` so far."""
        value = live_stream(stream)
        if self._live():
            _abi.library.berth_allocator_record_use(
                self._allocator._of_blocks(self._runtime), self._data, value
            )

    def free(self) -> None:
        """Frees the block now. Repeated: no effect. Refused while another library uses it."""
        if not self._data:
            return
        if self._exports:
            raise errors.InvalidArgument(
                f"the block at {self.pointer:#x} is used by {len(self._exports)} importers; it is "
                "freed when the last of them releases it"
            )
        self._free()

    def array(self, shape: typing.Sequence[int], dtype: str) -> Array:
        """A view of the block for tensor libraries, C-contiguous: `block.array((2, 3), "f4")`."""
        return Array(self, shape, dtype)

    def view(self) -> memoryview:
        """The bytes of host memory. The view must not be used after `free()`."""
        if not self.device.is_cpu:
            raise errors.InvalidArgument(
                f"the block is memory of {self.device}, which the host cannot read; copy it"
            )
        if not self._live():
            return memoryview(bytearray())
        owner = type("Bytes", (ctypes.c_ubyte * self._bytes,), {}).from_address(self.pointer)
        owner._block = self
        return memoryview(owner).cast("B")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array((self._bytes,), "u1").__dlpack_device__()

    def __dlpack__(self, **options: typing.Any) -> object:
        return self.array((self._bytes,), "u1").__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, typing.Any]:
        return self.array((self._bytes,), "u1").__cuda_array_interface__

    @property
    def __array_interface__(self) -> dict[str, typing.Any]:
        return self.array((self._bytes,), "u1").__array_interface__

    def __len__(self) -> int:
        return self._bytes

    def __repr__(self) -> str:
        where = "pinned memory" if self.is_pinned else str(self.device)
        return f"<berth.Block of {self._bytes} bytes at {self.pointer:#x}, {where}>"

    def _live(self) -> bool:
        """Whether the block has memory; raises if it was freed."""
        if not self._data and self._bytes:
            raise errors.InvalidArgument("the block was freed")
        return bool(self._data)

    def _free(self) -> None:
        allocator = self._allocator._of_blocks(self._runtime)
        if not self._allocator._runtime.end(_KIND, self):
            return
        try:
            _abi.library.berth_allocator_deallocate(allocator, self._data)
        except errors.Error:
            self._allocator._runtime.begin(_KIND, self)
            raise
        except BaseException:  # of the handler of a signal, after the call
            self._forget()
            raise
        self._forget()

    def _forget(self) -> None:
        self._data.value = None
        self._runtime = None

    def _give_up(self) -> None:
        """Releases ownership of the memory without freeing it."""
        self._allocator._runtime.end(_KIND, self)
        self._forget()
        self._bytes = 0

    def __del__(self, alive=ALIVE):
        if alive and getattr(self, "_runtime", None):
            try:
                self._free()
            except errors.Error:
                pass  # the device is lost
            except BaseException:  # of the handler of a signal, perhaps before the free
                self._free()
                raise


class Allocator(Unique):
    """The allocator of a device, of pinned memory, or of `cpu`. Safe from any thread."""

    _is_pinned = False

    def __init__(self, runtime: RuntimeHandle, pointer: ctypes.c_void_p):
        self._runtime = runtime
        self._pointer = pointer
        device = _abi.Device()
        _abi.library.berth_allocator_get_location(pointer, ctypes.byref(device))
        #: The device of the memory; `cpu` for pinned and pageable host memory.
        self.device = Device.from_abi(device)

    def allocate(self, size: int, stream: Stream | None = None) -> Block:
        """Allocates `size` bytes for work submitted to `stream` from now on.

        None is the legacy default stream of the device. The content is undefined.
        """
        size = checked_size(size, "size")
        if stream is None:
            stream = self._default_stream()
        value = live_stream(stream) if stream is not None else NO_STREAM
        allocator = self._get()
        block = Block(self, size, None if self.device.is_cpu else stream)
        return block._obtain(_abi.library.berth_allocator_allocate, allocator, size, value)

    def trim(self, bytes_to_keep: int = 0) -> int:
        """Releases cached memory to the driver; returns the number of bytes released."""
        released = ctypes.c_size_t()
        _abi.library.berth_allocator_trim(
            self._get(), checked_size(bytes_to_keep, "bytes_to_keep"), ctypes.byref(released)
        )
        return released.value

    def release_unused(self, seconds: float) -> int:
        """Returns memory that was not needed for this time; the number of bytes returned."""
        released = ctypes.c_size_t()
        _abi.library.berth_allocator_release_unused(
            self._get(), checked_time(seconds, "seconds", 1_000_000_000), ctypes.byref(released)
        )
        return released.value

    def counters(self) -> MemoryCounters:
        gauges, totals = _abi.MemoryGauges(), _abi.MemoryTotals()
        _abi.library.berth_allocator_get_counters(
            self._get(), ctypes.byref(gauges), ctypes.byref(totals)
        )
        return MemoryCounters(gauges, totals)

    def reset_peaks(self) -> None:
        """Sets the peak of every gauge to its current value."""
        _abi.library.berth_allocator_reset_peaks(self._get())

    def retire_stream(self, stream: Stream) -> None:
        """Must be called before other code destroys a stream that blocks were ordered on."""
        _abi.library.berth_allocator_retire_stream(self._get(), live_stream(stream))

    def _default_stream(self) -> Stream | None:
        return None

    def _get(self) -> ctypes.c_void_p:
        return Held(self._pointer, self._runtime.get())

    def _of_blocks(self, runtime: ctypes.c_void_p | None) -> ctypes.c_void_p:
        """The allocator for calls about a live block of this one, which may be a closed pool."""
        return Held(self._pointer, runtime)


class HostMemory(Allocator):
    """Pageable memory of `cpu`, not ordered on a stream."""


class PinnedMemory(Allocator):
    """Page-locked host memory, not ordered on a stream."""

    _is_pinned = True

    def allocate(
        self,
        size: int,
        stream: Stream | None = None,
        *,
        near: Device | str | None = None,
        write_combined: bool = False,
        may_wait: bool = True,
    ) -> Block:
        """Allocates `size` bytes; `stream` is recorded for the block if it is given.

        `near`: the NUMA node of this device; None: that of the current one. `may_wait`: whether the
        call may wait for work of streams that uses freed blocks.
        """
        size = checked_size(size, "size")
        if stream is not None:
            live_stream(stream)
        options = _abi.PinnedOptions(
            near=device_value(near, "near") if near is not None else _abi.Device(),
            kind=(
                _abi.PINNED_WRITE_COMBINED
                if checked_flag(write_combined, "write_combined")
                else _abi.PINNED_PORTABLE
            ),
            flags=0 if checked_flag(may_wait, "may_wait") else _abi.PINNED_NO_WAIT,
        )
        allocator = self._get()
        block = Block(self, size, None)
        block._obtain(
            _abi.library.berth_allocator_allocate_pinned_with,
            allocator,
            size,
            ctypes.byref(options),
        )
        if stream is not None:
            block.record_stream(stream)
        return block
