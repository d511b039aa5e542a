# SPDX-License-Identifier: Apache-2.0
"""Device names, and information about devices."""

from __future__ import annotations

import ctypes
import dataclasses

from berth import _abi, errors
from berth._arguments import INT_MAX, INT_MIN, checked_integer, checked_text, refuse

#: Numbers of DLPack's device types.
DLPACK_CPU = 1
DLPACK_CUDA = 2
DLPACK_CUDA_HOST = 3

_ACCEPTED = 'a str such as "cuda:0", or a berth.Device'


class Device:
    """The name of a device: `Device("cuda:1")`, `Device("cuda", 1)`, `Device("cpu")`.

    The device need not exist. `index` is -1 for a device without one, which is the
    current device of its type.
    """

    __slots__ = ("_value",)
    _value: _abi.Device

    def __init__(self, text: str | Device, index: int | None = None):
        if isinstance(text, Device):
            if index is not None:
                raise errors.InvalidArgument(f'"index" is {index} beside the device {text}')
            self._value = text._value
            return
        if not isinstance(text, str):
            refuse(text, "text", _ACCEPTED)
        if index is not None:
            text = f"{text}:{checked_integer(index, 'index', INT_MIN, INT_MAX)}"
        value = _abi.Device()
        _abi.library.berth_device_parse(checked_text(text, "text"), ctypes.byref(value))
        self._value = value

    @classmethod
    def from_abi(cls, value: _abi.Device) -> Device:
        device = cls.__new__(cls)
        device._value = _abi.Device(value.type, value.ordinal)
        return device

    @classmethod
    def from_dlpack(cls, device_type: int, device_id: int) -> Device:
        """The device of a DLPack device type and number; pinned memory is `cpu`."""
        device_type = checked_integer(device_type, "device_type", INT_MIN, INT_MAX)
        if device_type in (DLPACK_CPU, DLPACK_CUDA_HOST):
            return cls("cpu")
        if device_type == DLPACK_CUDA:
            return cls("cuda", device_id)
        raise errors.NotSupported(
            f"the DLPack device type {device_type}; accepted: {DLPACK_CPU} (CPU), {DLPACK_CUDA} "
            f"(CUDA), {DLPACK_CUDA_HOST} (pinned)"
        )

    def to_dlpack(self) -> tuple[int, int]:
        """The device type and number of DLPack."""
        if self.type == "cpu":
            return (DLPACK_CPU, 0)
        if self.type == "cuda" and self.index >= 0:
            return (DLPACK_CUDA, self.index)
        raise errors.NotSupported(f'DLPack has no device "{self}"; accepted: cpu, cuda:N')

    @property
    def type(self) -> str:
        """`cpu`, `cuda`, or a registered type."""
        name = ctypes.c_char_p()
        _abi.library.berth_device_type_get_name(self._value.type, ctypes.byref(name))
        return (name.value or b"").decode()

    @property
    def index(self) -> int:
        """N of `cuda:N`; -1 for the current device of the type; 0 for the CPU."""
        return self._value.ordinal

    @property
    def is_cpu(self) -> bool:
        return self._value.type == 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self._value.type, self._value.ordinal) == (other._value.type, other._value.ordinal)

    def __hash__(self) -> int:
        return hash((self._value.type, self._value.ordinal))

    def __str__(self) -> str:
        text = ctypes.c_void_p()
        _abi.library.berth_device_format(self._value, ctypes.byref(text))
        return _abi.take_text(text)

    def __repr__(self) -> str:
        return f'berth.Device("{self}")'


def device_value(device: object, name: str = "device") -> _abi.Device:
    """Checks that an argument is a device, or the text of one."""
    if isinstance(device, Device):
        return device._value
    if not isinstance(device, str):
        refuse(device, name, _ACCEPTED)
    checked_text(device, name)
    return Device(device)._value


@dataclasses.dataclass(frozen=True)
class DriverInfo:
    """The driver of a runtime."""

    name: str  #: `cuda`, `sim`, or the path of a driver library
    usable: bool  #: found, complete and initialized
    problem: str  #: one line if not usable
    version: int  #: 12020 is CUDA 12.2; 0 if not usable


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """A visible CUDA device."""

    uuid: str
    pci_bus_id: str
    name: str
    memory_bytes: int  #: total memory; 0: unknown
    physical: int  #: position in PCI order


@dataclasses.dataclass(frozen=True)
class MemoryInfo:
    """The memory of a device, or of the machine for `cpu`."""

    bytes_free: int
    bytes_total: int
