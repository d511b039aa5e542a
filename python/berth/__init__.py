# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a tensor framework: devices, memory, streams and copies.

    import berth

    runtime = berth.Runtime()
    stream = runtime.stream("cuda:0")
    block = runtime.memory("cuda:0").allocate(1 << 20, stream)
"""

from berth import _abi
from berth.array import Array
from berth.device import Device, DeviceInfo, DriverInfo, MemoryInfo
from berth.device_memory import DeviceMemory, MappedRange, MemoryProperties, Pool
from berth.dlpack import ImportedArray, from_dlpack
from berth.errors import (
    BackendError,
    CallbackFailed,
    Cancelled,
    DriverError,
    Error,
    Exhausted,
    FileError,
    InternalError,
    InvalidArgument,
    NotSupported,
    OutOfMemory,
    StreamCaptured,
)
from berth.memory import Allocator, Block, Gauge, HostMemory, MemoryCounters, PinnedMemory
from berth.runtime import Runtime
from berth.sharing import MemoryConnection, SharedBlock
from berth.stream import Stream

__all__ = [
    "Allocator",
    "Array",
    "BackendError",
    "Block",
    "CallbackFailed",
    "Cancelled",
    "Device",
    "DeviceInfo",
    "DeviceMemory",
    "DriverError",
    "DriverInfo",
    "Error",
    "Exhausted",
    "FileError",
    "Gauge",
    "HostMemory",
    "ImportedArray",
    "InternalError",
    "InvalidArgument",
    "MappedRange",
    "MemoryCounters",
    "MemoryConnection",
    "MemoryInfo",
    "MemoryProperties",
    "NotSupported",
    "OutOfMemory",
    "PinnedMemory",
    "Pool",
    "Runtime",
    "SharedBlock",
    "Stream",
    "StreamCaptured",
    "from_dlpack",
    "version",
]


def version() -> str:
    """The version of the library."""
    number = _abi.library.berth_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
