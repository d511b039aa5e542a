#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver's own objects on berth, with a stand-in for PyTorch whose pools allocate
through libberth_torch.so. What PyTorch does with the memory is not tested here.
"""

import contextlib
import ctypes
import sys
import types
import unittest

import packages

packages.use()
MIB = 1 << 20


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.alloc, self.free = getattr(library, alloc), getattr(library, free)
        self.alloc.restype = ctypes.c_void_p
        self.alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self):
        return self


class MemPool:
    def __init__(self, allocator=None):
        self.allocator = allocator


class StandIn(types.ModuleType):
    """The module `torch`, as far as the two packages use it."""

    Tensor = object

    def __init__(self):
        super().__init__("torch")
        self.__version__ = "0"
        self.version = types.SimpleNamespace(cuda="13.0", hip=None)
        self.pools = []
        self.device = 0
        self.cuda = types.SimpleNamespace(
            memory=types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator),
            MemPool=MemPool,
            use_mem_pool=self.use,
            current_device=lambda: self.device,
        )
        self.xpu = types.SimpleNamespace(is_available=lambda: False)

    @contextlib.contextmanager
    def use(self, pool):
        self.pools.append(pool)
        try:
            yield
        finally:
            self.pools.pop()

    def tensor(self, size):
        """The address of new memory of the current pool; 0 where it is PyTorch's own."""
        pool = self.pools[-1]
        return pool.allocator.alloc(size, self.device, None) if pool.allocator else 0


torch = sys.modules["torch"] = StandIn()
packages.need("numpy", "torch_memory_saver")

import torch_memory_saver  # noqa: E402

import berth  # noqa: E402
import berth.torch.memory_saver  # noqa: E402  the stand-in comes first

saver = torch_memory_saver.torch_memory_saver


class MemorySaverTest(unittest.TestCase):
    def setUp(self):
        berth.torch.memory_saver.enable()
        saver.resume()
        torch.device = 0
        self.runtime = berth.torch.runtime()
        self.stream = self.runtime.stream("cuda:0")

    def pool_bytes(self, tag):
        name = f"cuda:0/memory_saver {tag}"
        return sum(
            counters["bytes_reserved"]["current"]
            for counters in (
                allocator["counters"]
                for allocator in self.runtime.statistics()["allocators"]
                if allocator["allocator"] == name
            )
        )

    def test_enabling_twice_does_nothing(self):
        before = saver._impl
        berth.torch.memory_saver.enable()
        self.assertIs(saver._impl, before)

    def test_a_tag_gives_its_memory_back_and_gets_it_at_the_same_addresses(self):
        with saver.region(tag="weights"):
            weights = torch.tensor(8 * MIB)
        with saver.region(tag="cache"):
            torch.tensor(4 * MIB)
        saver.pause("weights")
        self.assertEqual(self.pool_bytes("weights"), 0)
        self.assertGreaterEqual(self.pool_bytes("cache"), 4 * MIB)
        saver.pause("weights")
        with self.assertRaisesRegex(berth.InvalidArgument, "paused"):
            with saver.region(tag="weights"):
                pass
        saver.resume("weights")
        self.assertGreaterEqual(self.pool_bytes("weights"), 8 * MIB)
        self.assertTrue(self.runtime.memory("cuda:0").owns(weights))

    def test_all_tags_at_once(self):
        for tag in ("first", "second"):
            with saver.region(tag=tag):
                torch.tensor(2 * MIB)
        saver.pause()
        self.assertEqual((self.pool_bytes("first"), self.pool_bytes("second")), (0, 0))
        saver.resume()
        self.assertGreater(self.pool_bytes("first") * self.pool_bytes("second"), 0)

    def test_a_backup_keeps_the_content(self):
        with saver.region(tag="kept", enable_cpu_backup=True):
            kept = torch.tensor(MIB)
        sent = self.runtime.pinned_memory.allocate(MIB)
        sent.view()[:] = b"\7" * MIB
        self.runtime.copy(kept, sent, MIB, self.stream)
        saver.pause("kept")
        saver.resume("kept")
        received = self.runtime.pinned_memory.allocate(MIB)
        self.runtime.copy(received, kept, MIB, self.stream)
        self.assertEqual(bytes(received.view()), b"\7" * MIB)

    def test_each_device_has_a_pool_of_its_own(self):
        torch.device = 1
        with saver.region(tag="device"):
            block = torch.tensor(MIB)
        self.assertTrue(self.runtime.memory("cuda:1").owns(block))
        self.assertFalse(self.runtime.memory("cuda:0").owns(block))

    def test_disable_inside_of_a_region(self):
        with saver.region(tag="outer"):
            with saver.disable():
                self.assertEqual(torch.tensor(MIB), 0)
            self.assertNotEqual(torch.tensor(MIB), 0)
        with self.assertRaises(berth.InvalidArgument):
            with saver.disable():
                pass

    def test_a_paused_tag_has_no_regions_of_either_kind_of_backup(self):
        with saver.region(tag="paused", enable_cpu_backup=True):
            torch.tensor(MIB)
            with self.assertRaisesRegex(berth.InvalidArgument, "in use"):
                saver.pause("paused")
        saver.pause("paused")
        for keeps_content in (False, True):
            with self.assertRaisesRegex(berth.InvalidArgument, "paused"):
                with saver.region(tag="paused", enable_cpu_backup=keeps_content):
                    pass

    def test_pytorch_keeps_its_own_allocator(self):
        with self.assertRaisesRegex(berth.InvalidArgument, "torch_memory_saver"):
            berth.torch.enable()

    def test_types(self):
        for options in ({"tag": 5}, {"tag": None}, {"tag": "a", "enable_cpu_backup": "yes"}):
            with self.assertRaises(TypeError):
                with saver.region(**options):
                    pass

    def test_what_is_not_supported_says_so(self):
        for options in (
            {"enable_disk_backup": True},
            {"enable_cpu_backup": True, "cpu_backup_backend": "mmap"},
            {"enable_cpu_backup": True, "cpu_backup_backend": "foo"},
        ):
            with self.assertRaises(berth.NotSupported):
                with saver.region(tag="refused", **options):
                    pass
        with self.assertRaises(berth.NotSupported):
            saver.get_cpu_backup(object())
        with self.assertRaises(berth.NotSupported):
            with saver.cuda_graph(object()):
                pass
        with self.assertRaisesRegex(berth.NotSupported, "set_memory_margin_bytes"):
            saver.memory_margin_bytes = 1


if __name__ == "__main__":
    unittest.main()
