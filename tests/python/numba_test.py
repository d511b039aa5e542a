#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth.numba on the look-alike of the driver. Exit status 77 without the package numba-cuda."""

import ctypes
import gc
import os
import subprocess
import sys
import unittest
import unittest.mock

import packages

packages.need("numpy", "numba", "cuda.bindings")

import numpy  # noqa: E402
from numba import cuda  # noqa: E402

import berth  # noqa: E402
import berth.numba  # noqa: E402

berth.numba.enable()
MIB = 1 << 20


def run_program(text, **environment):
    return subprocess.run(
        [sys.executable, "-B", "-c", text],
        env={**os.environ, **environment},
        cwd=os.path.dirname(os.path.abspath(__file__)),
        capture_output=True,
        text=True,
        check=False,
    )


class NumbaTest(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.manager = cuda.current_context().memory_manager
        self.manager.finish_frees()

    def pool(self):
        return self.manager._pool.counters()

    def test_arrays_are_memory_of_berth(self):
        before = self.pool().blocks_allocated.current
        array = cuda.to_device(numpy.arange(1000))
        self.assertIsInstance(self.manager, berth.numba.MemoryManager)
        self.assertEqual(self.pool().blocks_allocated.current, before + 1)
        self.assertTrue((array.copy_to_host() == numpy.arange(1000)).all())
        part = array[100:200]
        del array
        gc.collect()
        self.assertEqual(part.copy_to_host()[0], 100)
        self.assertEqual(self.manager._pending, {})

    def test_a_freed_block_serves_after_the_device_was_idle(self):
        array = cuda.device_array(MIB, numpy.uint8)
        address = array.device_ctypes_pointer.value
        del array
        gc.collect()
        self.assertIn(address, self.manager._pending)
        other = cuda.device_array(MIB, numpy.uint8)
        self.assertNotEqual(other.device_ctypes_pointer.value, address)
        self.manager.finish_frees()
        self.assertEqual(self.manager._pending, {})

    def test_frees_are_collected(self):
        for _ in range(10 * berth.numba.PENDING_BLOCKS_MAX):
            cuda.device_array(1000, numpy.uint8)
        self.assertLess(self.pool().blocks_allocated.current, 2 * berth.numba.PENDING_BLOCKS_MAX)
        with cuda.defer_cleanup():
            before = len(self.manager._pending)
            for _ in range(2 * berth.numba.PENDING_BLOCKS_MAX):
                cuda.device_array(1000, numpy.uint8)
            self.assertEqual(
                len(self.manager._pending), before + 2 * berth.numba.PENDING_BLOCKS_MAX
            )

    def test_out_of_memory(self):
        kept = [cuda.device_array(200 * MIB, numpy.uint8) for _ in range(4)]
        kept.clear()  # pending, and freed where memory is short
        self.assertEqual(cuda.device_array(900 * MIB, numpy.uint8).size, 900 * MIB)
        with self.assertRaises(cuda.cudadrv.driver.CudaAPIError) as raised:
            cuda.device_array(2048 * MIB, numpy.uint8)
        self.assertEqual(raised.exception.code, 2)
        self.assertEqual(cuda.device_array(10).size, 10)

    def test_devices(self):
        with cuda.gpus[1]:
            array = cuda.to_device(numpy.ones(10))
            self.assertEqual(array.copy_to_host().sum(), 10)
            manager = cuda.current_context().memory_manager
            self.assertEqual(manager._pool.name, "cuda:1/numba")
            self.assertEqual(cuda.current_context().get_memory_info().total, 1024 * MIB)

    def test_what_is_not_supported(self):
        with self.assertRaisesRegex(berth.NotSupported, "IPC"):
            cuda.device_array(10).get_ipc_handle()

    def test_reset(self):
        stale = cuda.device_array(10)
        address = stale.device_ctypes_pointer.value
        cuda.current_context().reset()
        self.assertEqual(self.pool().blocks_allocated.current, 0)
        array = cuda.to_device(numpy.ones(10))
        self.assertEqual(array.device_ctypes_pointer.value, address)
        del stale  # does not free the block that has its address now
        gc.collect()
        self.assertEqual(self.pool().blocks_allocated.current, 1)
        self.assertEqual(self.manager._pending, {})

    def test_the_wait_is_for_the_device_of_the_blocks(self):
        driver = cuda.cudadrv.driver.driver
        with cuda.gpus[1]:
            arrays = [cuda.device_array(10) for _ in range(berth.numba.PENDING_BLOCKS_MAX)]
            manager = cuda.current_context().memory_manager
            manager.finish_frees()
        waited = []

        def wait():
            with driver.get_active_context() as active:
                waited.append(active.devnum)

        with unittest.mock.patch.object(driver, "cuCtxSynchronize", wait), cuda.gpus[0]:
            arrays.clear()
            gc.collect()
            with driver.get_active_context() as active:
                self.assertEqual(active.devnum, 0)
        self.assertEqual(waited, [1])
        self.assertEqual(manager._pending, {})

    def test_a_capture_survives_frees(self):
        library = ctypes.CDLL("libcuda.so.1")
        stream = cuda.stream()
        handle = ctypes.c_void_p(int(stream.handle))
        arrays = [cuda.device_array(10) for _ in range(2 * berth.numba.PENDING_BLOCKS_MAX)]
        relaxed = 2
        self.assertEqual(library.cuStreamBeginCapture_v2(handle, relaxed), 0)
        arrays.clear()
        gc.collect()
        self.assertEqual(len(self.manager._pending), 2 * berth.numba.PENDING_BLOCKS_MAX)
        graph = ctypes.c_void_p()
        self.assertEqual(library.cuStreamEndCapture(handle, ctypes.byref(graph)), 0)
        self.assertEqual(library.cuGraphDestroy(graph), 0)
        self.manager.finish_frees()
        self.assertEqual(self.manager._pending, {})

    def test_enabling_late_is_refused(self):
        program = (
            "import packages; packages.use()\n"
            "from numba import cuda\n"
            "kept = cuda.device_array(1000)\n"
            "import berth, berth.numba\n"
            "try: berth.numba.enable()\n"
            "except berth.NotSupported as error: print(error)\n"
        )
        done = run_program(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("after Numba's first use of a device", done.stdout)

    def test_by_the_environment_and_to_the_end(self):
        program = (
            "import packages; packages.use()\n"
            "from numba import cuda\n"
            "kept = cuda.device_array(1000)\n"
            "print(type(cuda.current_context().memory_manager).__module__)\n"
        )
        done = run_program(program, NUMBA_CUDA_MEMORY_MANAGER="berth.numba")
        self.assertEqual((done.returncode, done.stdout), (0, "berth.numba\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
