# SPDX-License-Identifier: Apache-2.0
"""A block as an array of numbers, for tensor libraries."""

from __future__ import annotations

import collections.abc
import ctypes
import math
import typing

from berth import data_type, dlpack, dlpack_abi, errors
from berth._arguments import checked, checked_integer, checked_size, refuse
from berth.device import DLPACK_CUDA_HOST, Device
from berth.stream import Stream

#: Numbers of streams in `__dlpack__` and `__cuda_array_interface__`.
_LEGACY = 1
_PER_THREAD = 2
_NO_ORDER = -1
#: The bound of DLPack.
_EXTENT_MAX = (1 << 63) - 1


class ArrayMemory(dlpack.Exported, typing.Protocol):
    """What an array needs of a block."""

    bytes: int
    device: Device
    is_pinned: bool
    stream: Stream | None
    _allocator: typing.Any

    def record_stream(self, stream: Stream) -> None: ...

    def _live(self) -> bool: ...


class Array:
    """A view of a block, C-contiguous. It keeps the block alive."""

    __slots__ = ("block", "dtype", "shape")

    def __init__(self, block: ArrayMemory, shape: typing.Sequence[int], dtype: str):
        if not hasattr(type(block), "record_stream"):
            refuse(block, "block", "a berth.Block")
        self.block = block
        self.dtype = data_type.parse(checked(dtype, str, "dtype", 'a str such as "f4"'))
        if not isinstance(shape, collections.abc.Iterable):
            refuse(shape, "shape", "a sequence of ints")
        self.shape = tuple(checked_integer(extent, "shape", 0, _EXTENT_MAX) for extent in shape)
        needed = math.prod(self.shape) * self.dtype.bytes
        if needed > block.bytes:
            raise errors.InvalidArgument(
                f"{self.shape} of {self.dtype} takes {needed} bytes; the block has {block.bytes}"
            )

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device type and number of DLPack; pinned memory is CUDAHost."""
        if self.block.is_pinned:
            return (DLPACK_CUDA_HOST, 0)
        return self.block.device.to_dlpack()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule of DLPack 1, or 0 if the consumer names no version.

        `stream`: the consumer's stream, which waits for the work on the block, and whose work is
        waited for before the block is reused; None and 1: the legacy default stream; -1: the
        consumer takes care of the order.
        """
        own = self.__dlpack_device__()
        if copy:
            raise BufferError("a copy was requested; use berth.Runtime.copy()")
        if dl_device is not None and tuple(dl_device) != own:
            raise BufferError(f"the memory is on device {own}, not on {tuple(dl_device)}")
        is_versioned = max_version is not None and _major(max_version) >= dlpack_abi.MAJOR
        self.block._live()
        self._hand_over(stream)
        return dlpack.export(self.block, self.shape, self.dtype, own, is_versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, typing.Any]:
        """Version 3, with the stream of the block; the consumer waits for its work."""
        stream = self.block.stream
        if stream is None:
            raise AttributeError("__cuda_array_interface__: host memory has __array_interface__")
        self.block._live()
        return {**self._interface(), "stream": stream.handle or _LEGACY}

    @property
    def __array_interface__(self) -> dict[str, typing.Any]:
        """The protocol of numpy, for host memory."""
        if self.block.stream is not None:
            raise AttributeError("__array_interface__: the memory is on a device")
        self.block._live()
        interface = self._interface()
        if not self.block.pointer:  # numpy takes no null
            address = ctypes.addressof(_NOTHING)
            interface["data"] = (address, False)
        return interface

    def __repr__(self) -> str:
        return f"<berth.Array {self.shape} of {self.dtype} in {self.block!r}>"

    def _interface(self) -> dict[str, typing.Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.type_string,
            "data": (self.block.pointer, False),
            "strides": None,
            "version": 3,
        }

    def _hand_over(self, stream: int | None) -> None:
        own = self.block.stream
        if own is None:
            if stream not in (None, _NO_ORDER):
                raise BufferError(f"stream {stream} for host memory; accepted: None")
            return
        if stream == _NO_ORDER:
            return
        if stream in (0, _PER_THREAD):
            reason = "ambiguous" if stream == 0 else "per-thread default streams order no memory"
            raise BufferError(
                f"stream {stream}: {reason}; accepted: 1 for the legacy default stream, another "
                "handle, or -1 for no order"
            )
        native = 0 if stream in (None, _LEGACY) else checked_size(stream, "stream")
        runtime = self.block._allocator._runtime
        consumer = Stream.from_native(runtime, self.block.device._value, native)
        if consumer != own:
            consumer.wait_for(own)
            self.block.record_stream(consumer)


def _major(version: typing.Any) -> int:
    try:
        major, _ = version
    except (TypeError, ValueError):
        major = None
    if not hasattr(major, "__index__"):
        refuse(version, "max_version", "a tuple of two ints, or None")
    return int(major)


_NOTHING = ctypes.c_uint64()
