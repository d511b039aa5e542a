# SPDX-License-Identifier: Apache-2.0
"""The part of CuPy that a campaign calls, for its rehearsal: arrays have memory of the allocator,
and no content."""

import types

float64 = None
allocator = [None]


class Array:
    def __init__(self, size):
        self.size = size
        self.memory = allocator[0](size * 8)

    def __mul__(self, _):
        return Array(self.size)

    __add__ = __mul__

    def sum(self):
        return self.size


def arange(size, dtype):
    assert dtype is float64
    return Array(size)


class Block:
    """Freed with its last reference."""

    def __init__(self, allocate, free, size):
        self.free, self.address = free, allocate(size, 0)
        assert self.address

    def __del__(self):
        self.free(self.address, 0)


class PythonFunctionAllocator:
    def __init__(self, allocate, free):
        self.malloc = lambda size: Block(allocate, free, size)


class MemoryPool:
    def malloc(self, size):
        return bytearray(size)


def set_allocator(function):
    allocator[0] = function


cuda = types.SimpleNamespace(
    runtime=types.SimpleNamespace(getDeviceCount=lambda: 1),
    memory=types.SimpleNamespace(
        PythonFunctionAllocator=PythonFunctionAllocator, OutOfMemoryError=MemoryError
    ),
    MemoryPool=MemoryPool, set_allocator=set_allocator,
    get_current_stream=lambda: types.SimpleNamespace(ptr=0),
)  # fmt: skip
