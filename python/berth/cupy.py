# SPDX-License-Identifier: Apache-2.0
"""berth as the memory of CuPy.

    import berth.cupy

    berth.cupy.enable()
"""

from __future__ import annotations

import ctypes
import functools
import typing

from berth import Device, OutOfMemory, Runtime
from berth._library import beside
from berth._raw import RawMemory

__all__ = ["allocate", "device_segments", "enable", "free", "pinned_segments", "runtime"]


@functools.cache
def runtime() -> Runtime:
    """The runtime of CuPy's memory; the first call creates it."""
    created = Runtime()
    created._handle.live.add(("memory of CuPy", 0))
    return created


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(beside("libberth_cupy.so"))
    library.berth_cupy_pinned_malloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.berth_cupy_pinned_malloc.restype = ctypes.c_void_p
    library.berth_cupy_pinned_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    library.berth_cupy_pinned_free.restype = None
    return library


def _address(function: str) -> int:
    return ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value or 0


def _parameter() -> int:
    return runtime()._handle.get().value or 0


@functools.cache
def _memory(device: int) -> RawMemory:
    return RawMemory(runtime().memory(Device("cuda", device)), f"cuda:{device}")


def allocate(size: int, device: int) -> int:
    """For PythonFunctionAllocator: memory that is ordered on CuPy's current stream."""
    import cupy

    try:
        return _memory(device).allocate(size, cupy.cuda.get_current_stream().ptr)
    except OutOfMemory as error:
        total = runtime().memory(Device("cuda", device)).counters().bytes_reserved.current
        raise cupy.cuda.memory.OutOfMemoryError(size, total) from error


def free(address: int, device: int) -> None:
    """For PythonFunctionAllocator: frees a block after the work of CuPy's current stream."""
    import cupy

    _memory(device).free(address, cupy.cuda.get_current_stream().ptr)


def device_segments() -> typing.Any:
    """A CFunctionAllocator: the source of a cupy.cuda.MemoryPool, which keeps its own cache."""
    import cupy

    return cupy.cuda.memory.CFunctionAllocator(
        _parameter(), _address("berth_cupy_malloc"), _address("berth_cupy_free"), runtime()
    )


class PinnedSegment:
    """A segment of cupy.cuda.PinnedMemoryPool: page-locked memory for one device."""

    def __init__(self, size: int, device: int):
        self._free = _library().berth_cupy_pinned_free
        self.ptr = _library().berth_cupy_pinned_malloc(_parameter(), size, device) or 0
        self.size = size
        self.device_id = device
        if size > 0 and not self.ptr:
            raise OutOfMemory(f"{size} bytes of pinned memory for CuPy")

    def __int__(self) -> int:
        return self.ptr

    def __del__(self) -> None:
        if getattr(self, "ptr", 0):
            self._free(_parameter(), self.ptr, self.device_id)


def pinned_segments(size: int) -> typing.Any:
    """The source of a cupy.cuda.PinnedMemoryPool."""
    import cupy

    segment = PinnedSegment(size, cupy.cuda.Device().id)
    return cupy.cuda.PinnedMemoryPointer(segment, 0)


def enable(*, stream_ordered: bool = True) -> None:
    """Makes berth the memory of CuPy in this process, device and pinned.

    `stream_ordered`: every array comes from berth, ordered on CuPy's current stream. False: CuPy
    keeps its own pool, which gets its segments from berth.
    """
    import cupy

    if stream_ordered:
        allocator = cupy.cuda.memory.PythonFunctionAllocator(allocate, free)
        cupy.cuda.set_allocator(allocator.malloc)
    else:
        cupy.cuda.set_allocator(cupy.cuda.MemoryPool(device_segments().malloc).malloc)
    pool = cupy.cuda.PinnedMemoryPool(pinned_segments)
    cupy.cuda.set_pinned_memory_allocator(pool.malloc)
