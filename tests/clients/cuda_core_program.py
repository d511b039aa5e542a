# SPDX-License-Identifier: Apache-2.0
"""What cuda-core does without kernels and compilers, as a program that runs by `berth sim`; see
cuda_core_test.py. Runs as a script: prints how many of the cases ran, by unittest."""

import ctypes
import unittest

import cuda.core as core
from cuda.core import graph

BYTES = 4096


def pinned(size=BYTES):
    return core.LegacyPinnedMemoryResource().allocate(size)


def content(buffer):
    return bytes((ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle)))


class Case(unittest.TestCase):
    def setUp(self):
        self.device = core.Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()

    def tearDown(self):
        self.stream.sync()

    def memory(self, value=0, size=BYTES):
        buffer = self.device.allocate(size, stream=self.stream)
        buffer.fill(value, stream=self.stream)
        return buffer

    def read(self, buffer, stream=None):
        host = pinned(buffer.size)
        buffer.copy_to(host, stream=stream or self.stream)
        (stream or self.stream).sync()
        return content(host)


class Devices(Case):
    def test_every_property_is_told(self):
        properties = self.device.properties
        names = [name for name in dir(properties) if not name.startswith("_")]
        for name in names:
            getattr(properties, name)
        self.assertGreater(len(names), 100)

    def test_a_device_has_a_name_and_peers(self):
        self.assertEqual(self.device.name, "Simulated GPU")
        self.assertEqual(tuple(self.device.compute_capability), (9, 0))
        self.assertEqual(len(core.Device.get_all_devices()), 2)
        self.assertTrue(self.device.can_access_peer(1))
        self.assertEqual(self.device.uuid.count("-"), 4)


class Streams(Case):
    def test_events_measure_and_order(self):
        options = core.EventOptions(timing_enabled=True)
        begin, end = self.stream.record(options=options), self.device.create_event(options=options)
        buffer = self.memory(3)
        self.stream.record(end)
        other = self.device.create_stream()
        other.wait(end)
        self.assertEqual(self.read(buffer, other)[:2], b"\x03\x03")
        end.sync()
        self.assertTrue(end.is_done)
        self.assertGreaterEqual(end - begin, 0)

    def test_priorities_and_default_streams(self):
        urgent = self.device.create_stream(options=core.StreamOptions(priority=-1))
        self.assertEqual(urgent.priority, -1)
        self.assertTrue(urgent.is_nonblocking)
        self.device.default_stream.sync()
        core.PER_THREAD_DEFAULT_STREAM.sync()

    def test_an_event_has_a_descriptor_for_other_processes(self):
        event = self.stream.record(options=core.EventOptions(ipc_enabled=True))
        self.assertTrue(event.is_ipc_enabled)
        self.assertIsNotNone(event.ipc_descriptor)


class Memory(Case):
    def test_pools_of_a_device(self):
        resource = core.DeviceMemoryResource(self.device, core.DeviceMemoryResourceOptions(
            max_size=1 << 26))
        buffer = resource.allocate(BYTES, stream=self.stream)
        buffer.fill(7, stream=self.stream)
        self.assertEqual(self.read(buffer), b"\x07" * BYTES)
        self.assertGreaterEqual(resource.attributes.used_mem_current, BYTES)
        buffer.close(self.stream)
        self.stream.sync()
        self.assertEqual(resource.attributes.used_mem_current, 0)

    def test_pinned_memory(self):
        host = pinned()
        self.assertTrue(host.is_host_accessible)
        self.assertTrue(host.is_device_accessible)

    def test_virtual_memory(self):
        resource = core.VirtualMemoryResource(self.device)
        buffer = resource.allocate(1 << 21, stream=self.stream)
        buffer.fill(9, stream=self.stream)
        self.assertEqual(self.read(buffer)[:1], b"\x09")
        grown = resource.modify_allocation(buffer, 1 << 22)
        self.assertEqual(grown.size, 1 << 22)
        self.stream.sync()

    def test_patterns(self):
        buffer = self.device.allocate(16, stream=self.stream)
        buffer.fill(b"\x01\x02\x03\x04", stream=self.stream)
        self.assertEqual(self.read(buffer), b"\x01\x02\x03\x04" * 4)


class Graphs(Case):
    def launch(self, executable):
        executable.launch(self.stream)
        self.stream.sync()

    def test_a_graph_of_all_kinds_of_nodes(self):
        source, target = self.memory(1), self.memory(2)
        calls = []
        definition = graph.GraphDefinition()
        fill = definition.memset(source.handle, 5, BYTES)
        copy = fill.memcpy(target.handle, source.handle, BYTES)
        called = copy.callback(lambda: calls.append(1))
        called.join()
        self.assertEqual(len(definition.nodes()), 4)
        self.assertEqual(len(definition.edges()), 3)
        self.assertEqual(set(copy.pred), {fill})
        self.assertEqual(set(copy.succ), {called})
        self.assertEqual((fill.dptr, fill.value, fill.width), (int(source.handle), 5, BYTES))
        self.assertEqual((copy.dst, copy.src, copy.size),
                         (int(target.handle), int(source.handle), BYTES))
        self.launch(definition.instantiate())
        self.assertEqual(self.read(target), b"\x05" * BYTES)
        self.assertEqual(calls, [1])

    def test_edges_and_nodes_are_removed(self):
        buffer = self.memory()
        definition = graph.GraphDefinition()
        nodes = [definition.memset(int(buffer.handle) + 16 * i, i, 16) for i in range(3)]
        nodes[0].succ.add(nodes[1])
        nodes[2].succ.add(nodes[0])
        self.assertEqual(len(definition.edges()), 2)
        nodes[0].succ.discard(nodes[1])
        self.assertEqual(len(definition.edges()), 1)
        nodes[1].destroy()
        self.assertEqual(len(definition.nodes()), 2)
        self.launch(definition.instantiate())
        self.assertEqual(self.read(buffer)[:48], b"\x00" * 32 + b"\x02" * 16)

    def test_memory_of_a_graph(self):
        definition = graph.GraphDefinition()
        target = pinned()
        allocated = definition.allocate(BYTES)
        filled = allocated.memset(allocated.dptr, 6, BYTES)
        copied = filled.memcpy(int(target.handle), allocated.dptr, BYTES)
        copied.deallocate(allocated.dptr)
        self.launch(definition.instantiate())
        self.assertEqual(content(target), b"\x06" * BYTES)

    def test_events_and_child_graphs(self):
        buffer = self.memory()
        inner = graph.GraphDefinition()
        inner.memset(buffer.handle, 4, BYTES)
        definition = graph.GraphDefinition()
        event = self.device.create_event()
        child = definition.embed(inner)
        recorded = child.record(event)
        recorded.wait(event)
        self.launch(definition.instantiate())
        event.sync()
        self.assertEqual(self.read(buffer), b"\x04" * BYTES)
        self.assertEqual(len(child.child_graph.nodes()), 1)

    def test_nodes_are_changed(self):
        buffer = self.memory()
        definition = graph.GraphDefinition()
        fill = definition.memset(buffer.handle, 1, BYTES)
        executable = definition.instantiate()
        fill.update(value=2)
        self.launch(executable)
        self.assertEqual(self.read(buffer), b"\x01" * BYTES)
        self.launch(definition.instantiate())
        self.assertEqual(self.read(buffer), b"\x02" * BYTES)
        executable.update(definition)
        self.launch(executable)
        self.assertEqual(self.read(buffer), b"\x02" * BYTES)

    def test_a_capture(self):
        source, target = self.memory(8), self.memory()
        self.stream.sync()
        builder = self.device.create_graph_builder().begin_building()
        target.copy_from(source, stream=builder)
        executable = builder.end_building().complete()
        self.launch(executable)
        self.assertEqual(self.read(target), b"\x08" * BYTES)


if __name__ == "__main__":
    unittest.main()
