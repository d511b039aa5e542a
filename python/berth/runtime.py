# SPDX-License-Identifier: Apache-2.0
"""The runtime, which owns all objects of berth."""

from __future__ import annotations

import ctypes
import json
import socket as sockets
import typing

from berth import _abi, errors
from berth._arguments import (
    INT_MAX,
    INT_MIN,
    checked_callable,
    checked_flag,
    checked_integer,
    checked_size,
    checked_text,
    refuse,
)
from berth._handle import RuntimeHandle, Unique, guarded
from berth.device import Device, DeviceInfo, DriverInfo, MemoryInfo, device_value
from berth.device_memory import DeviceMemory, MappedRange
from berth.memory import Allocator, Block, HostMemory, PinnedMemory
from berth.sharing import MemoryConnection
from berth.stream import Stream, live_stream

SEVERITIES = {0: "warning", 1: "error"}


class Runtime(Unique):
    """The owner of all devices, streams, memory and copies of one driver.

    It is destroyed with the last reference to it and to its objects. When the interpreter
    ends, nothing is destroyed: the process frees everything.
    """

    def __init__(
        self,
        *,
        driver: str = "",
        configuration: str = "",
        read_environment: bool = True,
        virtual_memory: bool = True,
        on_pressure: typing.Callable[[int], bool] | None = None,
        on_map: typing.Callable[[MappedRange], bool] | None = None,
        on_unmap: typing.Callable[[MappedRange], None] | None = None,
        report: typing.Callable[[str, str], None] | None = None,
    ):
        """`driver`: `cuda`, `sim`, `auto`, or a path; empty: BERTH_DRIVER, or `cuda`.

        `configuration`: `key=value,key=value`, over which BERTH_CONF is applied unless
        `read_environment` is false. `on_pressure(bytes_needed)` is called when device memory is
        short, and returns whether it freed anything. `report(severity, message)` gets problems that
        no call could return.

        `on_map(range)` is called when device memory has been mapped, before it is handed out, and
        returns whether the program accepts it; otherwise it is unmapped, and the request raises
        OutOfMemory. `on_unmap(range)` is called before memory is unmapped. A lock is held: they may
        free blocks, and must not allocate.

        All are called on any thread, and no more once the interpreter ends. Their exceptions go to
        `sys.unraisablehook`, and count as False.
        """
        for name, function in (
            ("on_pressure", on_pressure),
            ("on_map", on_map),
            ("on_unmap", on_unmap),
            ("report", report),
        ):
            checked_callable(function, name)
        is_mapped = checked_flag(virtual_memory, "virtual_memory")
        flags = 0 if is_mapped else _abi.RUNTIME_NO_VIRTUAL_MEMORY
        reads = checked_flag(read_environment, "read_environment")
        flags |= 0 if reads else _abi.RUNTIME_IGNORE_ENVIRONMENT
        options = _abi.RuntimeOptions(
            driver=checked_text(driver, "driver"),
            configuration=checked_text(configuration, "configuration"),
            flags=flags,
        )
        if on_pressure is not None:
            options.on_pressure = _abi.Pressure(
                guarded(lambda _, needed: bool(on_pressure(needed)), False)
            )
        if on_map is not None:
            options.on_map = _abi.Map(
                guarded(lambda _, range: bool(on_map(MappedRange._of(range.contents))), False)
            )
        if on_unmap is not None:
            options.on_unmap = _abi.Unmap(
                guarded(lambda _, range: on_unmap(MappedRange._of(range.contents)), None)
            )
        if report is not None:
            options.report = _abi.Report(
                guarded(
                    lambda _, severity, message: report(
                        SEVERITIES.get(severity, "error"), message.decode(errors="replace")
                    ),
                    None,
                )
            )
        pointer = ctypes.c_void_p()
        _abi.library.berth_runtime_create(ctypes.byref(options), ctypes.byref(pointer))
        callbacks = (options.on_pressure, options.on_map, options.on_unmap, options.report)
        self._set_up(RuntimeHandle(pointer, callbacks))

    @classmethod
    def _borrow(cls, pointer: int) -> Runtime:
        """Refers to a runtime of another library, which is never destroyed."""
        runtime = cls.__new__(cls)
        handle = RuntimeHandle(ctypes.c_void_p(pointer), (), is_owned=False)
        handle.live.add(("owner", 0))
        runtime._set_up(handle)
        return runtime

    def _set_up(self, handle: RuntimeHandle) -> None:
        self._handle = handle
        self._allocators: dict[object, Allocator] = {}

    @property
    def driver(self) -> DriverInfo:
        info = _abi.DriverInfo()
        _abi.library.berth_driver_get_info(self._handle.get(), ctypes.byref(info))
        return DriverInfo(
            info.name.decode(), bool(info.usable), info.problem.decode(), info.version
        )

    @property
    def devices(self) -> list[Device]:
        """The visible CUDA devices; none without a usable driver."""
        count = ctypes.c_int()
        _abi.library.berth_device_count(self._handle.get(), ctypes.byref(count))
        return [Device("cuda", index) for index in range(count.value)]

    def device_info(self, device: Device | str) -> DeviceInfo:
        info = _abi.DeviceInfo()
        _abi.library.berth_device_get_info(
            self._handle.get(), device_value(device), ctypes.byref(info)
        )
        return DeviceInfo(
            info.uuid.decode(),
            info.pci_bus_id.decode(),
            info.name.decode(),
            info.memory_bytes,
            info.physical,
        )

    def memory_info(self, device: Device | str) -> MemoryInfo:
        info = _abi.MemoryInfo()
        _abi.library.berth_device_get_memory_info(
            self._handle.get(), device_value(device), ctypes.byref(info)
        )
        return MemoryInfo(info.bytes_free, info.bytes_total)

    @property
    def current_device(self) -> Device:
        """The device of the thread's current CUDA context; cuda:0 if it has none."""
        device = _abi.Device()
        _abi.library.berth_device_get_current(self._handle.get(), ctypes.byref(device))
        return Device.from_abi(device)

    def set_current_device(self, device: Device | str) -> None:
        """Makes the device's primary context current on the calling thread."""
        _abi.library.berth_device_set_current(self._handle.get(), device_value(device))

    def memory(self, device: Device | str) -> DeviceMemory:
        """The allocator of a CUDA device's memory."""
        resolved = self._resolve(device)
        return typing.cast(
            DeviceMemory,
            self._allocator(
                resolved,
                lambda handle, pointer: DeviceMemory(
                    handle, pointer, self.external_stream(resolved, 0)
                ),
                "berth_allocator_get_device",
                resolved._value,
            ),
        )

    @property
    def pinned_memory(self) -> PinnedMemory:
        """The allocator of page-locked host memory."""
        return typing.cast(
            PinnedMemory, self._allocator("pinned", PinnedMemory, "berth_allocator_get_pinned")
        )

    @property
    def host_memory(self) -> HostMemory:
        """The allocator of `cpu`."""
        return typing.cast(
            HostMemory, self._allocator("host", HostMemory, "berth_allocator_get_host")
        )

    def stream(self, device: Device | str, priority: int = 0) -> Stream:
        """Leases a pooled stream; streams of lower numbers run first, 0 is the lowest priority."""
        return Stream.lease(
            self._handle,
            device_value(device),
            checked_integer(priority, "priority", INT_MIN, INT_MAX),
        )

    def external_stream(self, device: Device | str, handle: int) -> Stream:
        """Refers to a foreign stream by its CUstream; 0 is the legacy default stream.

        Call `Allocator.retire_stream()` before that code destroys it.
        """
        return Stream.from_native(self._handle, device_value(device), handle)

    def copy_async(
        self, target: Block | int, source: Block | int, size: int, stream: Stream
    ) -> None:
        """Copies in the order of `stream`. Pageable memory is read or written before it returns."""
        self._copy("berth_copy_async", target, source, size, stream)

    def copy(self, target: Block | int, source: Block | int, size: int, stream: Stream) -> None:
        """Copies in the order of `stream`, and returns when the copy is complete."""
        self._copy("berth_copy_sync", target, source, size, stream)

    def find(self, pointer: int) -> tuple[int, int, Device] | None:
        """The live block that contains an address: its start, size and device."""
        block = _abi.MemoryBlock()
        _abi.library.berth_memory_find(
            self._handle.get(), checked_size(pointer, "pointer"), ctypes.byref(block)
        )
        if not block.data:
            return None
        return block.data, block.bytes, Device.from_abi(block.device)

    def connect_memory(self, socket: sockets.socket | int) -> MemoryConnection:
        """A connection to another process, over which blocks of contiguous pools are shared.

        Takes ownership of `socket`, a connected one of AF_UNIX and SOCK_SEQPACKET.
        """
        return MemoryConnection(self._handle, socket)

    def statistics(self) -> dict[str, typing.Any]:
        """All statistics at one moment, as docs/statistics.md describes them."""
        text = ctypes.c_void_p()
        _abi.library.berth_statistics_to_json(self._handle.get(), ctypes.byref(text))
        return json.loads(_abi.take_text(text))

    def statistics_text(self) -> str:
        """The same as a report of 80 columns."""
        text = ctypes.c_void_p()
        _abi.library.berth_statistics_to_text(self._handle.get(), ctypes.byref(text))
        return _abi.take_text(text)

    def close(self) -> None:
        """Destroys the runtime now, or once other threads have returned from their calls.

        Refused while blocks, pools or leased streams are live.
        """
        self._handle.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Closes the runtime, if it has no live objects: otherwise it is destroyed after them."""
        if not self._handle.live:
            self.close()

    def _copy(
        self, function: str, target: Block | int, source: Block | int, size: int, stream: Stream
    ) -> None:
        size = checked_size(size, "size")
        getattr(_abi.library, function)(
            self._handle.get(),
            _address(target, size, "target"),
            _address(source, size, "source"),
            size,
            live_stream(stream),
        )

    def _resolve(self, device: Device | str) -> Device:
        resolved = _abi.Device()
        _abi.library.berth_device_resolve(
            self._handle.get(), device_value(device), ctypes.byref(resolved)
        )
        return Device.from_abi(resolved)

    def _allocator(
        self,
        key: object,
        make: typing.Callable[[RuntimeHandle, ctypes.c_void_p], Allocator],
        function: str,
        *arguments: object,
    ) -> Allocator:
        runtime = self._handle.get()
        known = self._allocators.get(key)
        if known is not None:
            return known
        pointer = ctypes.c_void_p()
        getattr(_abi.library, function)(runtime, *arguments, ctypes.byref(pointer))
        return self._allocators.setdefault(key, make(self._handle, pointer))


def _address(side: Block | int, size: int, name: str) -> int:
    if not isinstance(side, Block):
        if not hasattr(side, "__index__"):
            refuse(side, name, "a berth.Block, or an address as an int")
        return checked_size(side, name)
    if size > side.bytes:
        raise errors.InvalidArgument(
            f"a copy of {size} bytes exceeds a block of {side.bytes} bytes"
        )
    side._live()
    return side.pointer
