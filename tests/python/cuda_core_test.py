#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth.cuda_core on the look-alike of the driver. Exit status 77 without the package cuda-core."""

import ctypes
import gc
import os
import subprocess
import sys
import unittest

import packages

packages.need("numpy", "cuda.core")

import cuda.core  # noqa: E402

import berth  # noqa: E402
import berth.cuda_core  # noqa: E402

MIB = 1 << 20


def bytes_of(buffer):
    return (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))


class CudaCoreTest(unittest.TestCase):
    def setUp(self):
        self.device = cuda.core.Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.addCleanup(self.stream.close)
        self.runtime = berth.Runtime()
        self.memory = self.runtime.memory("cuda:0")
        self.resource = berth.cuda_core.DeviceMemoryResource(self.device, runtime=self.runtime)
        self.addCleanup(lambda: self.resource.retire_stream(self.stream))

    def test_buffers_are_memory_of_berth(self):
        buffer = self.resource.allocate(1000, stream=self.stream)
        self.assertEqual(self.runtime.find(int(buffer.handle))[1], 1000)
        self.assertEqual((buffer.size, buffer.device_id), (1000, 0))
        self.assertEqual(
            (buffer.is_device_accessible, buffer.is_host_accessible, buffer.is_managed),
            (True, False, False),
        )
        self.assertEqual(buffer.__dlpack_device__(), (2, 0))
        buffer.close()
        self.assertEqual(self.memory.counters().blocks_allocated.current, 0)
        self.resource.allocate(1000, stream=self.stream)
        gc.collect()
        self.assertEqual(self.memory.counters().blocks_allocated.current, 0)

    def test_the_resource_of_a_device(self):
        before, self.device.memory_resource = self.device.memory_resource, self.resource
        try:
            with self.device.allocate(MIB, stream=self.stream) as buffer:
                self.assertTrue(self.memory.owns(int(buffer.handle)))
        finally:
            self.device.memory_resource = before

    def test_copies(self):
        pinned = berth.cuda_core.PinnedMemoryResource(self.device, runtime=self.runtime)
        source, target = (pinned.allocate(1000, stream=self.stream) for _ in range(2))
        bytes_of(source)[:] = bytes(range(250)) * 4
        buffer = self.resource.allocate(1000, stream=self.stream)
        buffer.copy_from(source, stream=self.stream)
        buffer.copy_to(target, stream=self.stream)
        self.stream.sync()
        self.assertEqual(bytes(bytes_of(target)), bytes(range(250)) * 4)
        self.assertEqual((source.is_host_accessible, source.device_id), (True, -1))

    def test_the_stream_of_the_free_is_waited_for(self):
        other = self.device.create_stream()
        pinned = self.runtime.pinned_memory.allocate(2 * MIB)
        buffer = self.resource.allocate(2 * MIB, stream=self.stream)
        self.runtime.copy_async(
            pinned, int(buffer.handle), 2 * MIB,
            self.runtime.external_stream("cuda:0", int(other.handle)),
        )  # fmt: skip
        buffer.close(other)
        self.assertEqual(self.memory.counters().blocks_pending.current, 1)
        other.sync()
        self.resource.retire_stream(other)
        other.close()

    def test_default_streams(self):
        buffer = self.resource.allocate(1000, stream=self.device.default_stream)
        buffer.close()
        with self.assertRaisesRegex(berth.InvalidArgument, "per-thread"):
            self.resource.allocate(1000, stream=cuda.core.PER_THREAD_DEFAULT_STREAM)

    def test_sizes(self):
        empty = self.resource.allocate(0, stream=self.stream)
        self.assertEqual(empty.size, 0)
        empty.close()
        with self.assertRaises(MemoryError):
            self.resource.allocate(2048 * MIB, stream=self.stream)
        with self.assertRaises(ValueError):
            self.resource.allocate(-1, stream=self.stream)

    def test_arguments_of_a_wrong_type(self):
        make = berth.cuda_core.DeviceMemoryResource
        resource = make()
        for name, use in (
            ("device", lambda: make("x")),
            ("pool", lambda: make(0, pool="kv")),
            ("runtime", lambda: make(0, runtime=5)),
            ("device", lambda: berth.cuda_core.PinnedMemoryResource("x")),
            ("stream", lambda: resource.allocate(10, stream=None)),
        ):
            with self.assertRaisesRegex(TypeError, f'"{name}" is of type .*; accepted: '):
                use()

    def test_devices_of_pools_and_streams(self):
        make = berth.cuda_core.DeviceMemoryResource
        pool = self.runtime.memory("cuda:1").create_pool("other")
        with self.assertRaisesRegex(berth.InvalidArgument, "is of cuda:1; accepted: .* cuda:0"):
            make(0, pool=pool)
        with self.assertRaisesRegex(berth.InvalidArgument, "one of them"):
            make(1, pool=pool, runtime=self.runtime)
        resource = make(1, pool=pool)
        self.assertEqual(resource.device_id, 1)
        with self.assertRaisesRegex(berth.InvalidArgument, "is of cuda:0; accepted: .* cuda:1"):
            resource.allocate(10, stream=self.stream)
        pool.close()

    def test_a_pool_that_sleeps(self):
        pool = self.memory.create_pool("weights")
        resource = berth.cuda_core.DeviceMemoryResource(self.device, pool=pool)
        buffer = resource.allocate(2 * MIB, stream=self.stream)
        self.assertTrue(pool.owns(int(buffer.handle)))
        self.assertEqual(pool.sleep(), 2 * MIB)
        pool.wake()
        pool.close()
        buffer.close()

    def test_the_runtime_cannot_be_closed_before(self):
        with self.assertRaisesRegex(berth.InvalidArgument, "memory of another library"):
            self.runtime.close()

    def test_to_the_end(self):
        program = (
            "import packages; packages.use()\n"
            "import cuda.core, berth.cuda_core\n"
            "device = cuda.core.Device(); device.set_current(); stream = device.create_stream()\n"
            "resource = berth.cuda_core.DeviceMemoryResource(device)\n"
            "kept = resource.allocate(1000, stream=stream)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
