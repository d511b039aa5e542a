#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module: blocks, allocators, pools and pinned memory, on two simulated devices."""

import gc
import unittest

import berth

MIB = 1 << 20


class MemoryTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()
        self.memory = self.runtime.memory("cuda:0")

    def tearDown(self):
        gc.collect()
        self.assertEqual(self.memory.counters().blocks_allocated.current, 0)

    def test_blocks(self):
        stream = self.runtime.stream("cuda:0")
        block = self.memory.allocate(1000, stream)
        self.assertEqual((block.bytes, len(block), block.stream), (1000, 1000, stream))
        self.assertEqual(block.device, berth.Device("cuda:0"))
        self.assertFalse(block.is_pinned)
        self.assertTrue(self.memory.owns(block.pointer))
        self.assertFalse(self.runtime.memory("cuda:1").owns(block.pointer))
        self.assertFalse(self.memory.owns(0))
        pointer = block.pointer
        block.free()
        block.free()
        self.assertEqual(block.pointer, 0)
        for use in (lambda: block.record_stream(stream), lambda: block.record_use(stream)):
            with self.assertRaisesRegex(berth.InvalidArgument, "freed"):
                use()
        self.assertEqual(self.memory.allocate(1000, stream).pointer, pointer)

    def test_a_block_is_freed_when_nothing_refers_to_it(self):
        self.memory.allocate(MIB)
        self.assertEqual(self.memory.counters().bytes_allocated.current, 0)
        self.assertEqual(self.memory.counters().bytes_allocated.peak, MIB)
        self.memory.reset_peaks()
        self.assertEqual(self.memory.counters().bytes_allocated.peak, 0)
        self.assertEqual(self.memory.counters().allocations, 1)
        with self.assertRaisesRegex(AttributeError, "bytes_reserved"):
            _ = self.memory.counters().no_such_counter

    def test_nothing(self):
        block = self.memory.allocate(0)
        self.assertEqual((block.pointer, block.bytes), (0, 0))
        block.record_stream(block.stream)
        block.free()

    def test_sizes_that_c_would_cut(self):
        for size in (-1, 1 << 64, (1 << 64) + 100):
            for allocator in (
                self.memory,
                self.runtime.pinned_memory,
                self.runtime.host_memory,
            ):
                with self.assertRaisesRegex(berth.InvalidArgument, str(size)):
                    allocator.allocate(size)
        with self.assertRaises(TypeError):
            self.memory.allocate(1.5)
        with self.assertRaises(berth.OutOfMemory):
            self.memory.allocate((1 << 64) - 1)

    def test_a_stream_of_another_device(self):
        stream = self.runtime.stream("cuda:1")
        with self.assertRaisesRegex(berth.InvalidArgument, "cuda:1"):
            self.memory.allocate(100, stream)
        block = self.memory.allocate(100)
        with self.assertRaises(berth.InvalidArgument):
            block.record_stream(stream)

    def test_a_recorded_stream_holds_the_block(self):
        stream, reader = (self.runtime.stream("cuda:0") for _ in range(2))
        self.memory.set_limits(bytes_max=2 * MIB)
        block = self.memory.allocate(2 * MIB, stream)
        pinned = self.runtime.pinned_memory.allocate(2 * MIB)
        self.runtime.copy_async(pinned, block, 2 * MIB, reader)
        block.record_use(reader)
        block.free()
        self.assertEqual(self.memory.counters().blocks_pending.current, 1)
        reader.sync()
        self.assertTrue(self.memory.allocate(2 * MIB, stream).pointer)

    def test_trim(self):
        self.memory.allocate(4 * MIB).free()
        self.assertEqual(self.memory.trim(), 4 * MIB)
        self.memory.allocate(4 * MIB).free()
        self.memory.release_unused(0)
        with self.assertRaises(berth.InvalidArgument):
            self.memory.release_unused(-1)

    def test_host_memory(self):
        block = self.runtime.host_memory.allocate(100)
        view = block.view()
        view[3] = 7
        self.assertEqual((block.view()[3], view.nbytes, block.stream), (7, 100, None))
        self.assertEqual(bytes(self.runtime.host_memory.allocate(0).view()), b"")
        del block
        view[4] = 8  # keeps the block
        with self.assertRaisesRegex(berth.InvalidArgument, "cuda:0"):
            self.memory.allocate(10).view()

    def test_pinned_memory(self):
        pinned = self.runtime.pinned_memory
        block = pinned.allocate(4096, self.runtime.stream("cuda:0"), near="cuda:1", may_wait=False)
        self.assertTrue(block.is_pinned)
        self.assertEqual(block.device, berth.Device("cpu"))
        block.view()[:3] = b"abc"
        self.assertEqual(bytes(block.view()[:3]), b"abc")
        self.assertTrue(pinned.allocate(100, write_combined=True).pointer)
        with self.assertRaises(berth.InvalidArgument):
            pinned.allocate(100, near="cuda:7")

    def test_pools(self):
        with self.memory.create_pool("weights", bytes_max=8 * MIB) as pool:
            self.assertEqual(pool.name, "cuda:0/weights")
            block = pool.allocate(1000)
            self.assertTrue(pool.owns(block.pointer))
            with pool.use():
                routed = self.memory.allocate(1000)
            stream = self.runtime.stream("cuda:0")
            with pool.use(stream):
                by_stream = self.memory.allocate(1000, stream)
            beside = self.memory.allocate(1000)
            owned = [pool.owns(each.pointer) for each in (routed, by_stream, beside)]
            self.assertEqual(owned, [True, True, False])
            with self.assertRaises(berth.OutOfMemory):
                pool.allocate(16 * MIB)
        with self.assertRaisesRegex(berth.InvalidArgument, "closed"):
            pool.allocate(1000)
        pool.close()
        # Through the allocator of the device:
        block.record_use(stream)
        block.record_stream(stream)
        block.free()
        with self.assertRaises(berth.InvalidArgument):
            self.memory.create_pool("")

    def test_sleep(self):
        stream = self.runtime.stream("cuda:0")
        pool = self.memory.create_pool("weights")
        block = pool.allocate(2 * MIB, stream)
        host = self.runtime.host_memory.allocate(2 * MIB)
        host.view()[:4] = b"kept"
        self.runtime.copy(block, host, host.bytes, stream)
        pointer = block.pointer
        self.assertEqual(pool.sleep(keep_content=True), 2 * MIB)
        self.assertTrue(pool.is_asleep)
        with self.assertRaises(berth.InvalidArgument):
            pool.allocate(100)
        pool.wake()
        self.assertFalse(pool.is_asleep)
        host.view()[:4] = b"????"
        self.runtime.copy(host, block, host.bytes, stream)
        self.assertEqual((bytes(host.view()[:4]), block.pointer), (b"kept", pointer))
        self.assertEqual(self.memory.sleep("weights"), 2 * MIB)
        self.memory.wake("weights")
        with self.assertRaisesRegex(berth.InvalidArgument, "biases"):
            self.memory.sleep("biases")

    def test_a_call_that_failed_keeps_nothing_open(self):
        pool = self.memory.create_pool("refused", contiguous=True)
        block = pool.allocate(1000)
        gc.disable()
        try:
            refused = False
            try:  # assertRaises() would clear the frames of the call
                pool.sleep()
            except berth.NotSupported:
                refused = True
            self.assertTrue(refused)
            pool.close()
            with self.assertRaisesRegex(berth.InvalidArgument, "cuda:0/refused is closed"):
                self.memory.wake("refused")
        finally:
            gc.enable()
        block.free()

    def test_a_pool_lives_as_long_as_its_blocks(self):
        block = self.memory.create_pool("weights").allocate(1000)
        gc.collect()
        self.assertEqual(self.runtime.find(block.pointer)[1], 1000)


class MappingTest(unittest.TestCase):
    def test_each_mapping_is_announced_and_withdrawn(self):
        mapped, unmapped = [], []
        accepts = [True]

        def on_map(given):
            mapped.append(given)
            return accepts[0]

        runtime = berth.Runtime(on_map=on_map, on_unmap=unmapped.append)
        memory = runtime.memory("cuda:0")
        block = memory.allocate(8 * MIB)
        self.assertEqual([given.bytes for given in mapped], [8 * MIB])
        self.assertEqual(mapped[0].device, berth.Device("cuda:0"))
        self.assertEqual(mapped[0].pointer, block.pointer)
        self.assertFalse(mapped[0].is_alias)
        accepts[0] = False
        with self.assertRaisesRegex(berth.OutOfMemory, "on_map has refused"):
            memory.allocate(8 * MIB)
        block.free()
        self.assertEqual(unmapped, [])
        memory.trim()
        self.assertEqual([given.bytes for given in unmapped], [8 * MIB])


if __name__ == "__main__":
    unittest.main()
