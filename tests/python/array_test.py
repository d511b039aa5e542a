#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory to and from other libraries: DLPack, array interfaces, lifetimes and order.

The importer is written here, with ctypes; numpy is one more, where it is found.
"""

import ctypes
import gc
import threading
import unittest

import berth
from berth import data_type, dlpack_abi

import packages

packages.use()
try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy was not found")


def take(capsule):
    """What an importer does with a capsule: its struct, which must be deleted."""
    for kind, (fresh, used) in dlpack_abi.NAMES.items():
        if dlpack_abi.is_valid(id(capsule), fresh):
            struct = kind.from_address(dlpack_abi.pointer_of(id(capsule), fresh))
            dlpack_abi.rename(id(capsule), used)
            return struct
    raise AssertionError("no capsule of a tensor")


def delete(struct):
    dlpack_abi.Deleter(struct.deleter)(ctypes.addressof(struct))


class DataTypeTest(unittest.TestCase):
    def test_texts(self):
        for text, name, size, type_string in (
            ("f4", "float32", 4, "<f4"),
            ("<i8", "int64", 8, "<i8"),
            ("uint8", "uint8", 1, "|u1"),
            ("complex64", "complex64", 8, "<c8"),
            ("bool", "bool", 1, "|b1"),
            ("float16", "float16", 2, "<f2"),
        ):
            parsed = data_type.parse(text)
            self.assertEqual((str(parsed), parsed.bytes), (name, size))
            self.assertEqual(parsed.type_string, type_string)
            self.assertEqual(data_type.parse(type_string), parsed)
        self.assertEqual(data_type.parse("bfloat16").bits, 16)
        with self.assertRaises(berth.NotSupported):
            _ = data_type.parse("bfloat16").type_string

    def test_what_is_refused(self):
        for text in ("", "f3", ">f4", "float31", "x4", "f4 ", "c4", "bool8"):
            with self.subTest(text), self.assertRaisesRegex(berth.InvalidArgument, "float32"):
                data_type.parse(text)


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()
        self.memory = self.runtime.memory("cuda:1")

    def test_the_struct(self):
        block = self.memory.allocate(100)
        array = block.array((2, 3), "f4")
        for version in (None, (0, 8), (1, 0), (1, 3)):
            with self.subTest(version):
                struct = take(array.__dlpack__(max_version=version))
                tensor = struct.tensor
                self.assertEqual(tensor.data, block.pointer)
                self.assertEqual((tensor.device.device_type, tensor.device.device_id), (2, 1))
                self.assertEqual((tensor.shape[:2], tensor.strides[:2]), ([2, 3], [3, 1]))
                dtype = tensor.dtype
                self.assertEqual((dtype.code, dtype.bits, dtype.lanes), (2, 32, 1))
                self.assertEqual(tensor.byte_offset, 0)
                is_versioned = isinstance(struct, dlpack_abi.ManagedVersioned)
                self.assertEqual(is_versioned, version is not None and version[0] >= 1)
                if is_versioned:
                    self.assertEqual((struct.version.major, struct.flags), (1, 0))
                delete(struct)
        self.assertEqual(array.__dlpack_device__(), (2, 1))
        self.assertEqual(self.runtime.pinned_memory.allocate(8).__dlpack_device__(), (3, 0))
        self.assertEqual(self.runtime.host_memory.allocate(8).__dlpack_device__(), (1, 0))

    def test_sizes_of_structs(self):
        # As <dlpack/dlpack.h> has them on machines of 64 bits.
        self.assertEqual(ctypes.sizeof(dlpack_abi.Tensor), 48)
        self.assertEqual(ctypes.sizeof(dlpack_abi.Managed), 64)
        self.assertEqual(ctypes.sizeof(dlpack_abi.ManagedVersioned), 80)
        self.assertEqual(dlpack_abi.ManagedVersioned.tensor.offset, 32)

    def test_shapes(self):
        block = self.memory.allocate(24)
        for shape in ((), (0,), (2, 0, 3), (3, 2), (6,)):
            struct = take(block.array(shape, "f4").__dlpack__())
            self.assertEqual(tuple(struct.tensor.shape[: len(shape)]), shape)
            delete(struct)
        for shape, reason in (((7,), "28 bytes"), ((-1,), "accepted: 0 to")):
            with self.assertRaisesRegex(berth.InvalidArgument, reason):
                block.array(shape, "f4")

    def test_the_importer_keeps_the_block(self):
        counters = self.memory.counters
        block = self.memory.allocate(1000)
        first, second = (take(block.__dlpack__()) for _ in range(2))
        with self.assertRaisesRegex(berth.InvalidArgument, "used by 2 importers"):
            block.free()
        del block
        gc.collect()
        delete(first)
        self.assertEqual(counters().blocks_allocated.current, 1)
        deleter = threading.Thread(target=delete, args=(second,))
        deleter.start()
        deleter.join()
        self.assertEqual(counters().blocks_allocated.current, 0)

    def test_a_capsule_that_nobody_takes(self):
        for options in ({}, {"max_version": (1, 0)}):
            block = self.memory.allocate(1000)
            capsule = block.__dlpack__(**options)
            del capsule
            block.free()
            self.assertEqual(self.memory.counters().blocks_allocated.current, 0)

    def test_the_consumer_waits_and_holds_the_block(self):
        own, consumer = (self.runtime.stream("cuda:1") for _ in range(2))
        self.memory.set_limits(bytes_max=2 << 20)
        pinned = self.runtime.pinned_memory.allocate(2 << 20)
        block = self.memory.allocate(2 << 20, own)
        self.runtime.copy_async(block, pinned, block.bytes, own)
        struct = take(block.__dlpack__(stream=consumer.handle))
        consumer.sync()
        self.assertTrue(own.is_done())
        self.runtime.copy_async(pinned, block, block.bytes, consumer)
        delete(struct)
        block.free()
        self.assertEqual(self.memory.counters().blocks_pending.current, 1)
        consumer.sync()

    def test_what_is_refused(self):
        block = self.memory.allocate(100)
        host = self.runtime.host_memory.allocate(100)
        for options, reason in (
            ({"stream": 0}, "ambiguous"),
            ({"stream": 2}, "per-thread"),
            ({"copy": True}, "copy"),
            ({"dl_device": (1, 0)}, "device"),
        ):
            with self.assertRaisesRegex(BufferError, reason):
                block.__dlpack__(**options)
        with self.assertRaisesRegex(BufferError, "host memory"):
            host.__dlpack__(stream=1)
        delete(take(block.__dlpack__(stream=-1, copy=False, dl_device=(2, 1))))
        block.free()
        with self.assertRaisesRegex(berth.InvalidArgument, "freed"):
            block.__dlpack__()

    def test_array_interfaces(self):
        stream = self.runtime.stream("cuda:1")
        array = self.memory.allocate(24, stream).array((2, 3), "f4")
        self.assertEqual(
            array.__cuda_array_interface__,
            {
                "shape": (2, 3),
                "typestr": "<f4",
                "data": (array.block.pointer, False),
                "strides": None,
                "version": 3,
                "stream": stream.handle,
            },
        )
        self.assertEqual(self.memory.allocate(8).__cuda_array_interface__["stream"], 1)
        self.assertFalse(hasattr(array, "__array_interface__"))
        host = self.runtime.host_memory.allocate(24)
        self.assertFalse(hasattr(host, "__cuda_array_interface__"))
        self.assertEqual(host.__array_interface__["data"], (host.pointer, False))


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.runtime = berth.Runtime()

    def test_device_memory(self):
        own, stream = (self.runtime.stream("cuda:0") for _ in range(2))
        block = self.runtime.memory("cuda:0").allocate(64, own)
        with berth.from_dlpack(block.array((4, 4), "f4"), stream) as array:
            self.assertEqual((array.pointer, array.bytes), (block.pointer, 64))
            self.assertEqual((array.device, array.shape), (berth.Device("cuda:0"), (4, 4)))
            self.assertEqual((array.strides, str(array.dtype)), ((4, 1), "float32"))
            self.assertTrue(array.is_contiguous)
            self.assertFalse(array.is_read_only)
            with self.assertRaises(berth.InvalidArgument):
                block.free()
        array.release()
        block.free()

    def test_it_is_released_when_nothing_refers_to_it(self):
        block = self.runtime.host_memory.allocate(64)
        array = berth.from_dlpack(block)
        del array
        block.free()

    def test_an_importer_without_a_version(self):
        class Old:
            def __init__(self, block):
                self.block = block

            def __dlpack_device__(self):
                return self.block.__dlpack_device__()

            def __dlpack__(self, stream=None):
                return self.block.__dlpack__(stream=stream)

        block = self.runtime.host_memory.allocate(64)
        self.assertEqual(berth.from_dlpack(Old(block)).pointer, block.pointer)

    def test_what_is_refused(self):
        block = self.runtime.host_memory.allocate(64)

        class Taken:
            capsule = block.__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_options):
                return self.capsule

        struct = take(Taken.capsule)
        with self.assertRaisesRegex(berth.InvalidArgument, "a consumed one"):
            berth.from_dlpack(Taken())
        delete(struct)
        Taken.capsule = block.__dlpack__(max_version=(1, 0))
        future = dlpack_abi.ManagedVersioned.from_address(
            dlpack_abi.pointer_of(id(Taken.capsule), b"dltensor_versioned")
        )
        future.version.major = 2
        with self.assertRaisesRegex(berth.NotSupported, r"DLPack 2\.0"):
            berth.from_dlpack(Taken())
        del Taken.capsule
        block.free()

    def test_a_malformed_tensor_is_refused_and_released_once(self):
        block = self.runtime.host_memory.allocate(64)
        extents = (ctypes.c_int64 * 2)(1 << 62, 1 << 62)
        negative = (ctypes.c_int64 * 2)(4, -4)
        for change in (
            {"ndim": -1},
            {"ndim": 2, "shape": None},
            {"ndim": 2, "shape": extents},
            {"ndim": 2, "shape": negative},
            {"device": dlpack_abi.DeviceNumber(99, 0)},
        ):
            deleted = []

            class Malformed:
                def __dlpack_device__(self):
                    return (1, 0)

                def __dlpack__(self, **_options):
                    capsule = block.__dlpack__(max_version=(1, 0))
                    address = dlpack_abi.pointer_of(id(capsule), b"dltensor_versioned")
                    struct = dlpack_abi.ManagedVersioned.from_address(address)
                    for name, value in change.items():
                        if name == "shape" and value is not None:
                            value = ctypes.cast(value, ctypes.POINTER(ctypes.c_int64))
                        setattr(struct.tensor, name, value)
                    deleted.append(address)
                    return capsule

            refused = (berth.InvalidArgument, berth.NotSupported)
            with self.subTest(change), self.assertRaises(refused):
                berth.from_dlpack(Malformed())
            gc.collect()
            self.assertEqual((len(deleted), len(block._exports)), (1, 0))
        block.free()

    @needs_numpy
    def test_numpy_exports(self):
        array = numpy.arange(12, dtype="f4").reshape(3, 4)
        imported = berth.from_dlpack(array)
        self.assertEqual((imported.pointer, imported.shape), (array.ctypes.data, (3, 4)))
        turned = berth.from_dlpack(array.T)
        self.assertEqual((turned.strides, turned.is_contiguous), ((1, 4), False))
        array.flags.writeable = False
        self.assertTrue(berth.from_dlpack(array).is_read_only)

    @needs_numpy
    def test_an_importer_that_fails_releases_the_block(self):
        block = self.runtime.memory("cuda:0").allocate(48)
        with self.assertRaises(Exception):  # numpy takes no memory of a GPU
            numpy.from_dlpack(block)
        gc.collect()
        block.free()

    @needs_numpy
    def test_numpy_imports(self):
        for memory in (self.runtime.host_memory, self.runtime.pinned_memory):
            block = memory.allocate(48)
            block.view()[:] = bytes(range(48))
            for array in (
                numpy.from_dlpack(block.array((3, 4), "f4")),
                numpy.asarray(block.array((3, 4), "f4")),
            ):
                expected = numpy.frombuffer(bytes(range(48)), "f4").reshape(3, 4)
                self.assertTrue((array == expected).all())
                array[0, 0] = 1
                self.assertEqual(bytes(block.view()[:4]), b"\0\0\x80?")
                block.view()[:4] = bytes(range(4))
        self.assertEqual(numpy.asarray(self.runtime.host_memory.allocate(0)).shape, (0,))


if __name__ == "__main__":
    unittest.main()
