# SPDX-License-Identifier: Apache-2.0
"""berth as a memory resource of cuda.core.

    device = cuda.core.Device()
    device.memory_resource = berth.cuda_core.DeviceMemoryResource(device)
"""

from __future__ import annotations

import functools
import typing

import cuda.core

from berth import Device, Pool, Runtime, errors
from berth._arguments import INT_MAX, checked, checked_integer, refuse
from berth._raw import RawMemory
from berth.memory import Allocator

__all__ = ["DeviceMemoryResource", "PinnedMemoryResource", "runtime"]


@functools.cache
def runtime() -> Runtime:
    """The default runtime of resources; the first call creates it."""
    return Runtime()


def _handle(stream: typing.Any) -> int:
    """The CUstream of a stream, or of a graph that is being built."""
    if not hasattr(stream, "__cuda_stream__"):
        refuse(stream, "stream", "a stream of cuda.core")
    return int(stream.__cuda_stream__()[1])


def _index(device: typing.Any) -> int:
    if isinstance(device, cuda.core.Device):
        return int(device.device_id)
    if not hasattr(device, "__index__"):
        refuse(device, "device", "a cuda.core.Device, or an int")
    return checked_integer(device, "device", 0, INT_MAX)


def _chosen(given: Runtime | None) -> Runtime:
    if given is None:
        return runtime()
    return checked(given, Runtime, "runtime", "a berth.Runtime, or None")


class _Resource(cuda.core.MemoryResource):
    """The base of both kinds: each block is ordered on the stream passed to allocate()."""

    _memory: RawMemory

    def allocate(self, size: int, *, stream: typing.Any) -> cuda.core.Buffer:
        """Allocates memory for work submitted to `stream` from now on. Its content is undefined.

        InvalidArgument: `stream` is a stream of another device.
        """
        self._require_device_of(stream)
        address = self._memory.allocate(size, _handle(stream))
        return cuda.core.Buffer.from_handle(address, size, mr=self, stream=stream)

    def deallocate(self, ptr: typing.Any, size: int, *, stream: typing.Any) -> None:
        """Frees a block after the work submitted to `stream` and to the stream of the block."""
        self._memory.free(int(ptr), None if stream is None else _handle(stream))

    def retire_stream(self, stream: typing.Any) -> None:
        """Must be called before a stream that memory was ordered on is closed."""
        self._memory.retire_stream(_handle(stream))

    def _require_device_of(self, stream: typing.Any) -> None:
        device = getattr(stream, "device", None)
        if device is None:
            return
        text = f"cuda:{int(device.device_id)}"
        if text != self._memory.device_text:
            raise errors.InvalidArgument(
                f'"stream" is of {text}; accepted: streams of {self._memory.device_text}'
            )

    @property
    def is_device_accessible(self) -> bool:
        return True

    @property
    def is_managed(self) -> bool:
        return False


class DeviceMemoryResource(_Resource):
    """The memory of a device, or of a private pool, which can sleep."""

    def __init__(
        self,
        device: cuda.core.Device | int = 0,
        *,
        runtime: Runtime | None = None,
        pool: Pool | None = None,
    ):
        """`pool`: of this device; `runtime`: None is berth.cuda_core.runtime()."""
        index = _index(device)
        if pool is not None:
            memory: Allocator = checked(pool, Pool, "pool", "a berth.Pool, or None")
            if runtime is not None:
                raise errors.InvalidArgument(
                    '"runtime" and "pool" are given; accepted: one of them, as a pool has a runtime'
                )
            if memory.device != Device("cuda", index):
                raise errors.InvalidArgument(
                    f'"pool" is of {memory.device}; accepted: a pool of cuda:{index}'
                )
        else:
            memory = _chosen(runtime).memory(Device("cuda", index))
        self._device_id = memory.device.index
        self._memory = RawMemory(memory, str(memory.device))

    @property
    def device_id(self) -> int:
        return self._device_id

    @property
    def is_host_accessible(self) -> bool:
        return False


class PinnedMemoryResource(_Resource):
    """Page-locked host memory, which every device can access."""

    def __init__(self, device: cuda.core.Device | int = 0, *, runtime: Runtime | None = None):
        """`device`: the device of the streams; the memory is on its NUMA node."""
        index = _index(device)
        self._memory = RawMemory(_chosen(runtime).pinned_memory, f"cuda:{index}")

    @property
    def device_id(self) -> int:
        return -1

    @property
    def is_host_accessible(self) -> bool:
        return True
