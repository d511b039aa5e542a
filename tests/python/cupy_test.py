#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth.cupy with a stand-in for CuPy, which calls the functions as CuPy declares them. CuPy itself
needs a GPU: its runtime is inside it, and accepts no other driver.
"""

import ctypes
import os
import subprocess
import sys
import types
import unittest

import berth

MIB = 1 << 20
# vp(*)(vp, size_t, int) and void(*)(vp, vp, int), which CFunctionAllocator takes as numbers.
MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(size, total, limit)


class CFunctionAllocator:
    def __init__(self, param, malloc_func, free_func, owner):
        self.param, self.owner = param, owner
        self.malloc_func, self.free_func = MALLOC(malloc_func), FREE(free_func)

    def malloc(self, size):
        return self.malloc_func(self.param, size, 0)

    def free(self, address):
        self.free_func(self.param, address, 0)


class PythonFunctionAllocator:
    def __init__(self, malloc_func, free_func):
        self.malloc_func, self.free_func = malloc_func, free_func

    def malloc(self, size):
        return self.malloc_func(size, 0)


class Pool:
    def __init__(self, source):
        self.source = source

    def malloc(self, size):
        return self.source(size)


current = types.SimpleNamespace(ptr=0)
chosen = {}
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
cupy.cuda = types.SimpleNamespace(
    memory=types.SimpleNamespace(
        CFunctionAllocator=CFunctionAllocator,
        PythonFunctionAllocator=PythonFunctionAllocator,
        OutOfMemoryError=OutOfMemoryError,
    ),
    MemoryPool=Pool,
    PinnedMemoryPool=Pool,
    PinnedMemoryPointer=lambda memory, offset: (memory, offset),
    Device=lambda: types.SimpleNamespace(id=0),
    get_current_stream=lambda: current,
    set_allocator=lambda malloc: chosen.update(device=malloc),
    set_pinned_memory_allocator=lambda malloc: chosen.update(pinned=malloc),
)

import berth.cupy  # noqa: E402  the stand-in comes first


def lookalike():
    """The simulated driver as libcuda."""
    folder = os.path.dirname(os.path.realpath(os.environ["BERTH_LIBRARY"]))
    return ctypes.CDLL(os.path.join(folder, "sim", "exports", "libcuda.so.1"))


class CupyTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.cupy.runtime()
        self.memory = self.runtime.memory("cuda:0")
        self.before = self.memory.counters().blocks_allocated.current

    def tearDown(self):
        self.assertEqual(self.memory.counters().blocks_allocated.current, self.before)

    def test_stream_ordered(self):
        berth.cupy.enable()
        with self.runtime.stream("cuda:0") as stream, self.runtime.stream("cuda:0") as other:
            current.ptr = stream.handle
            block = chosen["device"](MIB)
            self.assertTrue(self.memory.owns(block))
            pinned = self.runtime.pinned_memory.allocate(MIB)
            self.runtime.copy_async(pinned, block, MIB, other)
            current.ptr = other.handle
            berth.cupy.free(block, 0)
            self.assertEqual(self.memory.counters().blocks_pending.current, 1)
            other.sync()
        current.ptr = 0
        with self.assertRaises(OutOfMemoryError) as raised:
            chosen["device"](2048 * MIB)
        self.assertEqual(raised.exception.args[0], 2048 * MIB)
        self.assertEqual(chosen["device"](0), 0)
        berth.cupy.free(0, 0)

    def test_segments(self):
        berth.cupy.enable(stream_ordered=False)
        allocator = chosen["device"].__self__.source.__self__
        self.assertIs(allocator.owner, self.runtime)
        block = allocator.malloc(MIB)
        self.assertEqual(self.runtime.find(block)[1], MIB)
        stream = self.runtime.stream("cuda:0")
        pinned = self.runtime.pinned_memory.allocate(MIB)
        self.runtime.copy_async(block, pinned, MIB, stream)
        self.assertFalse(stream.is_done())  # progress=manual
        allocator.free(block)
        self.assertTrue(stream.is_done())
        self.assertIsNone(allocator.malloc(2048 * MIB))
        self.assertIsNone(allocator.malloc(0))
        allocator.free(None)
        allocator.free(ctypes.addressof(ctypes.c_int()))

    def test_a_capture_survives_a_free(self):
        driver = lookalike()
        context, stream, graph = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
        self.assertEqual(driver.cuCtxPushCurrent_v2(context), 0)
        blocking, relaxed = 0, 2
        self.assertEqual(driver.cuStreamCreate(ctypes.byref(stream), blocking), 0)
        berth.cupy.enable(stream_ordered=False)
        allocator = chosen["device"].__self__.source.__self__
        block = allocator.malloc(MIB)
        self.assertEqual(driver.cuStreamBeginCapture_v2(stream, relaxed), 0)
        allocator.free(block)
        self.assertEqual(self.memory.counters().blocks_allocated.current, self.before + 1)
        self.assertEqual(driver.cuStreamEndCapture(stream, ctypes.byref(graph)), 0)
        allocator.free(block)
        self.assertEqual(driver.cuGraphDestroy(graph), 0)
        self.assertEqual(driver.cuStreamDestroy_v2(stream), 0)
        self.assertEqual(driver.cuCtxPopCurrent_v2(ctypes.byref(context)), 0)
        self.assertEqual(driver.cuDevicePrimaryCtxRelease_v2(0), 0)

    def test_pinned(self):
        berth.cupy.enable()
        segment, offset = chosen["pinned"](MIB)
        self.assertEqual((segment.size, offset, segment.device_id), (MIB, 0, 0))
        self.assertEqual(self.runtime.find(int(segment))[1], MIB)
        address = segment.ptr
        del segment
        self.assertIsNone(self.runtime.find(address))

    def test_null_and_other_runtimes(self):
        library = berth.cupy._library()
        malloc, free = MALLOC(berth.cupy._address("berth_cupy_malloc")), FREE(
            berth.cupy._address("berth_cupy_free")
        )
        self.assertIsNone(malloc(None, MIB, 0))
        free(None, 1, 0)
        self.assertIsNone(malloc(berth.cupy._parameter(), MIB, 7))
        self.assertIsNotNone(library)
        with self.assertRaisesRegex(berth.InvalidArgument, "CuPy"):
            self.runtime.close()

    def test_to_the_end(self):
        program = (
            f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
            "import cupy_test, berth.cupy\n"
            "berth.cupy.enable()\n"
            "kept = cupy_test.chosen['device'](1000), cupy_test.chosen['pinned'](1000)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
