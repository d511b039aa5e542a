#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module: devices, runtimes, streams and copies, on two simulated devices."""

import gc
import signal
import threading
import unittest
from unittest import mock

import berth


class DeviceTest(unittest.TestCase):
    def test_text(self):
        device = berth.Device("cuda:1")
        self.assertEqual((device.type, device.index, str(device)), ("cuda", 1, "cuda:1"))
        self.assertEqual(device, berth.Device("cuda", 1))
        self.assertEqual(berth.Device(device), device)
        self.assertEqual(len({device, berth.Device("cuda:1"), berth.Device("cpu")}), 2)
        self.assertEqual(berth.Device("cuda").index, -1)
        self.assertTrue(berth.Device("cpu").is_cpu)
        self.assertFalse(device == "cuda:1")

    def test_what_is_refused(self):
        for text in ("", "gpu:0", "cuda:-1", "cuda:x"):
            with self.subTest(text), self.assertRaises(berth.InvalidArgument) as raised:
                berth.Device(text)
            self.assertIsInstance(raised.exception, ValueError)
            self.assertIn(text, str(raised.exception))
        with self.assertRaises(TypeError):
            berth.Device(0)
        with self.assertRaises(berth.InvalidArgument):
            berth.Device(berth.Device("cuda:0"), 1)

    def test_dlpack_numbers(self):
        for device, numbers in (("cpu", (1, 0)), ("cuda:1", (2, 1))):
            self.assertEqual(berth.Device(device).to_dlpack(), numbers)
            self.assertEqual(berth.Device.from_dlpack(*numbers), berth.Device(device))
        self.assertEqual(berth.Device.from_dlpack(3, 0), berth.Device("cpu"))
        with self.assertRaisesRegex(berth.NotSupported, "10"):
            berth.Device.from_dlpack(10, 0)
        with self.assertRaisesRegex(berth.NotSupported, '"cuda"'):
            berth.Device("cuda").to_dlpack()


class RuntimeTest(unittest.TestCase):
    def test_devices(self):
        with berth.Runtime() as runtime:
            driver = runtime.driver
            self.assertEqual((driver.name, driver.usable, driver.problem), ("sim", True, ""))
            self.assertEqual(runtime.devices, [berth.Device("cuda:0"), berth.Device("cuda:1")])
            info = runtime.device_info("cuda:1")
            self.assertTrue(info.uuid.startswith("GPU-"))
            self.assertEqual(info.memory_bytes, 1 << 30)
            self.assertEqual(runtime.memory_info("cuda:0").bytes_total, 1 << 30)
            runtime.set_current_device("cuda:1")
            self.assertEqual(runtime.current_device, berth.Device("cuda:1"))
            runtime.set_current_device("cuda:0")
            with self.assertRaisesRegex(berth.InvalidArgument, "cuda:2"):
                runtime.memory("cuda:2")

    def test_without_a_driver(self):
        with berth.Runtime(driver="/nowhere/libcuda.so.1", read_environment=False) as runtime:
            self.assertFalse(runtime.driver.usable)
            self.assertIn("/nowhere", runtime.driver.problem)
            self.assertEqual(runtime.devices, [])
            self.assertEqual(len(runtime.host_memory.allocate(10)), 10)
            with self.assertRaises(berth.NotSupported):
                runtime.pinned_memory.allocate(10)

    def test_options(self):
        with berth.Runtime(configuration="bytes_reserved_max=8MiB") as runtime:
            memory = runtime.memory("cuda:0")
            with self.assertRaises(berth.OutOfMemory) as raised:
                memory.allocate(16 << 20)
            self.assertIsInstance(raised.exception, MemoryError)
            self.assertIn("16777216", str(raised.exception).replace(" MiB", "777216"))
            memory.set_limits()
            self.assertEqual(memory.allocate(16 << 20).bytes, 16 << 20)
            memory.set_limits(bytes_max=0)
            with self.assertRaises(berth.OutOfMemory):
                memory.allocate(64 << 20)
        for configuration in ("no_such_key=1", "bytes_reserved_max=\0"):
            with self.assertRaises(berth.InvalidArgument):
                berth.Runtime(configuration=configuration)

    def test_close_refuses_while_something_is_live(self):
        runtime = berth.Runtime()
        block = runtime.memory("cuda:0").allocate(100)
        stream = runtime.stream("cuda:0")
        with self.assertRaisesRegex(berth.InvalidArgument, "1 block, 1 stream"):
            runtime.close()
        block.free()
        stream.release()
        runtime.close()
        runtime.close()
        for use in (
            lambda: runtime.devices,
            lambda: runtime.memory("cuda:0"),
            runtime.statistics,
            lambda: runtime.stream("cuda:0"),
        ):
            with self.assertRaisesRegex(berth.InvalidArgument, "closed"):
                use()
        block.free()
        with self.assertRaisesRegex(berth.InvalidArgument, "released"):
            stream.sync()

    def test_what_is_obtained_keeps_the_runtime(self):
        block = berth.Runtime().memory("cuda:0").allocate(100)
        block.record_stream(block.stream)
        self.assertEqual(block.device, berth.Device("cuda:0"))

    def test_pressure(self):
        asked = []
        kept = []

        def on_pressure(needed):
            asked.append(needed)
            kept.clear()
            return True

        runtime = berth.Runtime(configuration="bytes_reserved_max=8MiB", on_pressure=on_pressure)
        memory = runtime.memory("cuda:0")
        kept.append(memory.allocate(8 << 20))
        self.assertEqual(memory.allocate(8 << 20).bytes, 8 << 20)
        self.assertEqual(len(asked), 1)

    def test_a_callback_that_raises_frees_nothing(self):
        def on_pressure(_needed):
            raise KeyError("spilled nowhere")

        runtime = berth.Runtime(configuration="bytes_reserved_max=8MiB", on_pressure=on_pressure)
        kept = runtime.memory("cuda:0").allocate(8 << 20)
        said = []
        with mock.patch("sys.unraisablehook", said.append):
            with self.assertRaises(berth.OutOfMemory):
                runtime.memory("cuda:0").allocate(8 << 20)
        self.assertEqual([type(raised.exc_value) for raised in said], [KeyError])
        kept.free()
        self.assertTrue(runtime.memory("cuda:0").allocate(1 << 20).pointer)

    def test_a_mapping_callback_that_raises_refuses(self):
        def on_map(_range):
            raise KeyError("no room")

        runtime = berth.Runtime(on_map=on_map)
        said = []
        with mock.patch("sys.unraisablehook", said.append):
            for flags in ({}, {"contiguous": True}, {"for_graphs": True}):
                pool = runtime.memory("cuda:0").create_pool("refused", **flags)
                for _ in range(10):
                    with self.assertRaises(berth.OutOfMemory):
                        pool.allocate(1 << 20)
        self.assertGreaterEqual(len(said), 30)
        self.assertEqual({type(raised.exc_value) for raised in said}, {KeyError})

    def test_close_destroys_whatever_refers_to_freed_blocks(self):
        unmapped = []
        runtime = berth.Runtime(on_unmap=unmapped.append)
        block = runtime.memory("cuda:0").allocate(8 << 20)
        empty = runtime.memory("cuda:0").allocate(0)
        array = block.array((2,), "f4")
        block.free()
        runtime.close()
        self.assertEqual(sum(range.bytes for range in unmapped), 8 << 20)
        self.assertEqual((block.pointer, empty.pointer, array.shape), (0, 0, (2,)))

    def test_flags_are_bools(self):
        memory = berth.Runtime().memory("cuda:0")
        for use in (
            lambda: berth.Runtime(read_environment="no"),
            lambda: berth.Runtime(virtual_memory="off"),
            lambda: memory.create_pool("x", contiguous="no"),
            lambda: memory.create_pool("x", for_graphs=1),
            lambda: memory.sleep("x", keep_content="yes"),
        ):
            with self.assertRaisesRegex(TypeError, "accepted: a bool"):
                use()
        with self.assertRaisesRegex(berth.InvalidArgument, "name"):
            memory.create_pool("\udc80")

    def test_a_stream_of_a_closed_runtime_is_printed(self):
        runtime = berth.Runtime()
        stream = runtime.external_stream("cuda:0", 0)
        runtime.close()
        self.assertIn("closed", repr(stream))

    @unittest.skipUnless(hasattr(signal, "setitimer"), "no timers")
    def test_a_signal_loses_no_block_and_no_stream(self):
        runtime = berth.Runtime()
        memory = runtime.memory("cuda:0")

        def interrupt(_signal, _frame):
            raise InterruptedError

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for _ in range(300):
                kept = []
                with self.assertRaises(InterruptedError):
                    signal.setitimer(signal.ITIMER_REAL, 0.0002)
                    while True:
                        kept.append(memory.allocate(100))
                        kept.append(runtime.stream("cuda:0"))
                        kept.append(runtime.pinned_memory.allocate(100))
        finally:
            signal.signal(signal.SIGALRM, before)
        del kept
        gc.collect()
        for allocator in (memory, runtime.pinned_memory):
            self.assertEqual(allocator.counters().blocks_allocated.current, 0)
        runtime.close()

    def test_statistics(self):
        runtime = berth.Runtime()
        block = runtime.memory("cuda:0").allocate(1000)
        statistics = runtime.statistics()
        self.assertEqual(statistics["driver"]["name"], "sim")
        self.assertEqual(len(statistics["devices"]), 2)
        self.assertIn("cuda:0", runtime.statistics_text())
        self.assertEqual(runtime.find(block.pointer + 999), (block.pointer, 1000, block.device))
        self.assertIsNone(runtime.find(id(block)))

    def test_threads(self):
        runtime = berth.Runtime()
        memory = runtime.memory("cuda:0")
        problems = []

        def work():
            try:
                with runtime.stream("cuda:0") as stream:
                    for size in range(1, 300):
                        memory.allocate(size * 512, stream)
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(memory.counters().blocks_allocated.current, 0)


class StreamTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()

    def test_leases(self):
        with self.runtime.stream("cuda:1") as stream, self.runtime.stream("cuda:1", -1) as other:
            self.assertNotEqual(stream, other)
            self.assertEqual(stream.device, berth.Device("cuda:1"))
            self.assertEqual(stream.__cuda_stream__(), (0, stream.handle))
            same = self.runtime.external_stream("cuda:1", stream.handle)
            self.assertEqual((same, hash(same)), (stream, hash(stream)))
        stream.release()
        self.assertIn("released", repr(stream))
        with self.assertRaises(berth.InvalidArgument):
            self.runtime.stream("cuda:1", priority=1)
        default = self.runtime.external_stream("cuda:0", 0)
        self.assertEqual(default.handle, 0)
        default.release()
        default.sync()

    def test_order(self):
        stream, other = (self.runtime.stream("cuda:0") for _ in range(2))
        pinned = self.runtime.pinned_memory.allocate(1 << 20)
        block = self.runtime.memory("cuda:0").allocate(1 << 20, stream)
        self.runtime.copy_async(block, pinned, pinned.bytes, stream)
        self.assertFalse(other.is_done() and stream.is_done())  # progress=manual
        other.wait_for(stream)
        other.sync()
        self.assertTrue(stream.is_done())

    def test_copies(self):
        stream = self.runtime.stream("cuda:0")
        source, target = (self.runtime.host_memory.allocate(1000) for _ in range(2))
        source.view()[:] = bytes(range(250)) * 4
        block = self.runtime.memory("cuda:0").allocate(1000, stream)
        self.runtime.copy_async(block, source, 1000, stream)
        self.runtime.copy(target.pointer, block.pointer, 1000, stream)
        self.assertEqual(bytes(target.view()), bytes(source.view()))
        with self.assertRaisesRegex(berth.InvalidArgument, "1001 bytes exceeds a block of 1000"):
            self.runtime.copy(target, block, 1001, stream)
        block.free()
        with self.assertRaisesRegex(berth.InvalidArgument, "freed"):
            self.runtime.copy(target, block, 1000, stream)


if __name__ == "__main__":
    unittest.main()
