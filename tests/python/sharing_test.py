#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module: contiguous pools, and blocks shared over a connection."""

import gc
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest

import berth

MIB = 1 << 20
TIMEOUT = 30.0
#: Takes one block from the descriptor that it is given, and writes 7s; or vanishes with it.
PEER = """
import os, sys, berth
runtime = berth.Runtime()
connection = runtime.connect_memory(int(sys.argv[1]))
block = connection.receive(timeout=30)
stream = runtime.stream(block.device)
source = runtime.pinned_memory.allocate(block.bytes)
source.view()[:] = b"\\7" * block.bytes
if sys.argv[2] == "vanish":
    os.kill(os.getpid(), 9)
runtime.copy(block.pointer, source, block.bytes, stream)
block.free()
connection.close()
"""


class SharingTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()
        self.memory = self.runtime.memory("cuda:0")
        self.pool = self.memory.create_pool("shared", contiguous=True)
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection = self.runtime.connect_memory(ours)
        self.assertEqual(ours.fileno(), -1)

    def tearDown(self):
        self.connection.close()
        self.theirs.close()
        gc.collect()
        self.assertEqual(self.pool.counters().blocks_allocated.current, 0)
        self.pool.close()
        self.runtime.close()

    def test_properties(self):
        block = self.pool.allocate(MIB)
        plain = self.memory.allocate(MIB)
        found = self.pool.properties(block.pointer + 10)
        self.assertTrue(found.is_contiguous and found.is_exportable)
        self.assertLessEqual(found.segment, block.pointer)
        self.assertGreaterEqual(found.segment + found.segment_bytes, block.pointer + MIB)
        self.assertEqual(self.memory.properties(block.pointer), found)
        self.assertFalse(self.memory.properties(plain.pointer).is_contiguous)
        self.assertEqual(self.memory.properties(plain.pointer).segment, 0)
        self.assertIsNone(self.memory.properties(0))
        with self.assertRaisesRegex(berth.NotSupported, "contiguous"):
            self.pool.sleep()

    def test_blocks_go_and_come_back(self):
        taker = self.runtime.connect_memory(self.theirs)
        self.assertIsNone(taker.receive())
        blocks = [self.pool.allocate(size) for size in (1000, 2000)]
        self.connection.share(self.pool, blocks)
        self.connection.share(self.pool, self.pool.allocate(3000))
        self.assertEqual([block.pointer for block in blocks], [0, 0])
        blocks[0].free()
        self.assertEqual(self.connection.blocks_shared, 3)
        received = [taker.receive(TIMEOUT) for _ in range(3)]
        self.assertEqual([len(block) for block in received], [1000, 2000, 3000])
        self.assertEqual(received[0].device, berth.Device("cuda:0"))
        interface = received[0].__cuda_array_interface__
        self.assertEqual(interface["data"], (received[0].pointer, False))
        self.assertIsNone(taker.receive())
        self.assertEqual(self.connection.reclaim(), 0)
        received[0].free()
        received[0].free()
        self.assertEqual(received[0].pointer, 0)
        with self.assertRaisesRegex(berth.InvalidArgument, "freed"):
            _ = received[0].__cuda_array_interface__
        received.clear()
        self.assertEqual(self.connection.reclaim(), 3)
        self.assertTrue(self.connection.is_open)
        taker.close()

    def test_what_cannot_be_shared(self):
        block = self.pool.allocate(1000)
        other = self.memory.allocate(1000)
        for blocks, reason in (
            ([block, block], "twice"),
            (other, ""),
            (self.pool.allocate(0), "empty"),
        ):
            with self.assertRaisesRegex(berth.InvalidArgument, reason):
                self.connection.share(self.pool, blocks)
        plain = self.memory.create_pool("plain")
        with self.assertRaisesRegex(berth.InvalidArgument, "contiguous"):
            self.connection.share(plain, plain.allocate(1000))
        with self.assertRaises(berth.InvalidArgument):
            self.connection.share(self.pool, block, timeout=-1)
        self.assertNotEqual(block.pointer, 0)
        self.assertEqual(self.connection.blocks_shared, 0)
        capsule = block.__dlpack__()
        with self.assertRaisesRegex(berth.InvalidArgument, "exported"):
            self.connection.share(self.pool, block)
        del capsule

    def test_another_kind_of_descriptor(self):
        with self.assertRaises(berth.InvalidArgument):
            self.runtime.connect_memory(-1)
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with left, right:
            with self.assertRaises(berth.InvalidArgument):
                self.runtime.connect_memory(left)
            self.assertGreaterEqual(left.fileno(), 0)  # still the caller's

    def test_a_closed_connection(self):
        block = self.pool.allocate(1000)
        with self.assertRaisesRegex(berth.InvalidArgument, "connection"):
            self.runtime.close()
        self.connection.close()
        self.connection.close()
        with self.assertRaisesRegex(berth.InvalidArgument, "closed"):
            self.connection.share(self.pool, block)
        with self.assertRaisesRegex(berth.InvalidArgument, "closed"):
            self.connection.receive()

    def test_close_wakes_a_thread_that_waits(self):
        results = []

        def receive():
            try:
                results.append(self.connection.receive(86400.0))
            except berth.InvalidArgument:  # it had not begun to wait
                results.append(None)

        waits = threading.Thread(target=receive, daemon=True)
        waits.start()
        state = pathlib.Path(f"/proc/self/task/{waits.native_id}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)
        self.connection.close()
        waits.join(TIMEOUT)
        self.assertEqual(results, [None])

    def run_peer(self, how):
        number = self.theirs.fileno()
        self.connection.share(self.pool, self.pool.allocate(4096))
        command = [sys.executable, "-B", "-c", PEER, str(number), how]
        done = subprocess.run(command, pass_fds=[number], timeout=120, check=False)
        self.theirs.close()
        return done.returncode

    def test_another_process(self):
        self.assertEqual(self.run_peer("return"), 0)
        self.assertEqual(self.connection.reclaim(), 1)
        self.assertFalse(self.connection.is_open)

    def test_another_process_that_vanishes(self):
        self.assertEqual(self.run_peer("vanish"), -9)
        self.assertEqual(self.connection.reclaim(), 1)
        self.assertEqual(self.connection.blocks_shared, 0)


if __name__ == "__main__":
    os.environ.setdefault("BERTH_DRIVER", "sim")
    unittest.main()
