# SPDX-License-Identifier: Apache-2.0
"""berth as a memory resource of cuda.core.

    device = cuda.core.Device()
    device.memory_resource = berth.cuda_core.DeviceMemoryResource(device)
"""

from __future__ import annotations

import functools
import typing

import cuda.core

from berth import Device, Pool, Runtime
from berth._raw import RawMemory

__all__ = ["DeviceMemoryResource", "PinnedMemoryResource", "runtime"]


@functools.cache
def runtime() -> Runtime:
    """The default runtime of resources; the first call creates it."""
    return Runtime()


def _handle(stream: typing.Any) -> int:
    """The CUstream of a stream, or of a graph that is being built."""
    return int(stream.__cuda_stream__()[1])


class _Resource(cuda.core.MemoryResource):
    """The base of both kinds: each block is ordered on the stream passed to allocate()."""

    _memory: RawMemory

    def allocate(self, size: int, *, stream: typing.Any) -> cuda.core.Buffer:
        """Allocates memory for work submitted to `stream` from now on. Its content is undefined."""
        address = self._memory.allocate(size, _handle(stream))
        return cuda.core.Buffer.from_handle(address, size, mr=self, stream=stream)

    def deallocate(self, ptr: typing.Any, size: int, *, stream: typing.Any) -> None:
        """Frees a block after the work submitted to `stream` and to the stream of the block."""
        self._memory.free(int(ptr), None if stream is None else _handle(stream))

    def retire_stream(self, stream: typing.Any) -> None:
        """Must be called before a stream that memory was ordered on is closed."""
        self._memory.retire_stream(_handle(stream))

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
        index = device if isinstance(device, int) else device.device_id
        chosen = runtime or globals()["runtime"]()
        memory = pool or chosen.memory(Device("cuda", index))
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
        index = device if isinstance(device, int) else device.device_id
        chosen = runtime or globals()["runtime"]()
        self._memory = RawMemory(chosen.pinned_memory, f"cuda:{index}")

    @property
    def device_id(self) -> int:
        return -1

    @property
    def is_host_accessible(self) -> bool:
        return True
