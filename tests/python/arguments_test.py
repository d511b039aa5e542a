#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module: arguments of a wrong type or range are refused by name, and none is cut."""

import math
import os
import socket
import unittest

import berth

HUGE = 1 << 40


class ArgumentsTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()
        self.memory = self.runtime.memory("cuda:0")
        self.stream = self.runtime.stream("cuda:0")

    def tearDown(self):
        self.stream.release()
        self.runtime.close()

    def assert_refused(self, error, said, call, *arguments, **named):
        with self.assertRaises(error) as caught:
            call(*arguments, **named)
        self.assertIn(said, str(caught.exception))

    def test_streams(self):
        with self.runtime.stream("cuda:0") as other:
            block = self.memory.allocate(1000, other)
            pinned = self.runtime.pinned_memory
            accepted = "accepted: a berth.Stream"
            for wrong in (5, "cuda:0", 0, 1.5, block):
                said = f'"stream" is of type {type(wrong).__name__}; {accepted}'
                for call in (
                    block.record_stream,
                    block.record_use,
                    self.memory.retire_stream,
                    lambda stream: self.memory.allocate(10, stream),
                    lambda stream: pinned.allocate(10, stream),
                    lambda stream: self.runtime.copy(0, 0, 0, stream),
                    lambda stream: self.runtime.copy_async(0, 0, 0, stream),
                ):
                    self.assert_refused(TypeError, said, call, wrong)
                self.assert_refused(TypeError, '"other" is of type', other.wait_for, wrong)
            with self.memory.create_pool("pool") as pool, self.assertRaisesRegex(
                TypeError, '"stream" is of type int; accepted: a berth.Stream'
            ):
                pool.use(5).__enter__()
            self.assertEqual(pinned.counters().blocks_allocated.current, 0)
            block.free()

    def test_devices(self):
        for wrong in (0, None, b"cuda:0", self.stream):
            for name, call in (
                ("device", self.runtime.stream),
                ("device", self.runtime.memory),
                ("device", self.runtime.device_info),
                ("device", self.runtime.memory_info),
                ("device", self.runtime.set_current_device),
                ("device", lambda device: self.runtime.external_stream(device, 0)),
                ("text", berth.Device),
            ):
                said = f'"{name}" is of type {type(wrong).__name__}; accepted: a str such as'
                self.assert_refused(TypeError, said, call, wrong)
        self.assert_refused(
            TypeError, '"near" is of type int', self.runtime.pinned_memory.allocate, 10, near=0
        )

    def test_a_zero_character_does_not_end_a_device(self):
        for call in (berth.Device, self.runtime.stream, self.runtime.memory):
            self.assert_refused(ValueError, "contains a zero character", call, "cuda:0\0junk")

    def test_integers_are_not_cut(self):
        for wrong in (1 << 32, -(1 << 32), (1 << 31), HUGE):
            said = f'"priority" is {wrong}; accepted: -2147483648 to 2147483647'
            self.assert_refused(ValueError, said, self.runtime.stream, "cuda:0", wrong)
            self.assert_refused(ValueError, '"index" is', berth.Device, "cuda", wrong)
            self.assert_refused(ValueError, '"socket" is', self.runtime.connect_memory, wrong)
        for call in (
            lambda handle: self.runtime.external_stream("cuda:0", handle),
            self.runtime.find,
            self.memory.owns,
            self.memory.properties,
            self.memory.allocate,
            self.memory.trim,
            lambda size: self.runtime.copy(0, 0, size, self.stream),
            lambda address: self.runtime.copy(address, 0, 0, self.stream),
            lambda address: self.runtime.copy(0, address, 0, self.stream),
            lambda size: self.memory.set_limits(bytes_max=size),
            lambda size: self.memory.create_pool("pool", soft_bytes_max=size),
        ):
            self.assert_refused(ValueError, "accepted: 0 to 18446744073709551615", call, -1)
            self.assert_refused(ValueError, "accepted: 0 to", call, 1 << 64)
            self.assert_refused(TypeError, "is of type str; accepted: ", call, "10")
            self.assert_refused(TypeError, "is of type float; accepted: ", call, 1.5)

    def test_times(self):
        taker, giver = (
            self.runtime.connect_memory(end)
            for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        )
        with taker, giver:
            for name, call in (("timeout", taker.receive), ("seconds", self.memory.release_unused)):
                for wrong in (-1, math.nan, math.inf, 1e300):
                    said = f'"{name}" is {float(wrong)} seconds; accepted: 0 to'
                    self.assert_refused(ValueError, said, call, wrong)
                for wrong in (None, "soon", [1]):
                    self.assert_refused(TypeError, f'"{name}" is of type', call, wrong)
            with self.memory.create_pool("pool", contiguous=True) as pool:
                self.assert_refused(
                    TypeError, '"pool" is of type DeviceMemory', giver.share, self.memory, []
                )
                for wrong in (5, [5]):
                    self.assert_refused(
                        TypeError, '"blocks" is of type int', giver.share, pool, wrong
                    )
        self.assert_refused(
            TypeError, '"socket" is of type str', self.runtime.connect_memory, "socket"
        )

    def test_texts_and_functions(self):
        for name in ("driver", "configuration"):
            said = f'"{name}" is of type int; accepted: a str'
            self.assert_refused(TypeError, said, berth.Runtime, **{name: 5})
        for name in ("on_pressure", "on_map", "on_unmap", "report"):
            said = f'"{name}" is of type int; accepted: a function, or None'
            self.assert_refused(TypeError, said, berth.Runtime, **{name: 5})
        for call in (self.memory.create_pool, self.memory.sleep, self.memory.wake):
            self.assert_refused(TypeError, '"name" is of type int; accepted: a str', call, 5)

    def test_arrays(self):
        block = self.runtime.host_memory.allocate(16)
        self.assert_refused(TypeError, '"shape" is of type int', block.array, 4, "f4")
        self.assert_refused(TypeError, '"shape" is of type float', block.array, (4.0,), "f4")
        self.assert_refused(ValueError, '"shape" is -1; accepted: 0 to', block.array, (-1,), "f4")
        self.assert_refused(TypeError, '"dtype" is of type type', block.array, (4,), float)
        self.assert_refused(TypeError, '"block" is of type int', berth.Array, 5, (4,), "f4")
        self.assert_refused(TypeError, '"source" is of type int', berth.from_dlpack, 5)
        self.assert_refused(
            TypeError, '"stream" is of type int', berth.from_dlpack, block, stream=5
        )
        block.free()


if __name__ == "__main__":
    os.environ.setdefault("BERTH_DRIVER", "sim")
    unittest.main()
