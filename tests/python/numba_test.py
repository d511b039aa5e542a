#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth.numba on the look-alike of the driver. Exit status 77 without the package numba-cuda."""

import gc
import os
import subprocess
import sys
import unittest

import packages

packages.need("numpy", "numba", "cuda.bindings")

import numpy  # noqa: E402
from numba import cuda  # noqa: E402

import berth  # noqa: E402
import berth.numba  # noqa: E402

berth.numba.enable()
MIB = 1 << 20


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
        array = cuda.device_array(10)
        self.manager.reset()
        self.assertEqual(self.pool().blocks_allocated.current, 0)
        del array

    def test_by_the_environment_and_to_the_end(self):
        program = (
            "import packages; packages.use()\n"
            "from numba import cuda\n"
            "kept = cuda.device_array(1000)\n"
            "print(type(cuda.current_context().memory_manager).__module__)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            env={**os.environ, "NUMBA_CUDA_MEMORY_MANAGER": "berth.numba"},
            cwd=os.path.dirname(os.path.abspath(__file__)),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (0, "berth.numba\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
