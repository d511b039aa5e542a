#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that stand in for kernels of a program on the look-alike of the driver, and
names of memory."""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import berth.sim

CODE = b".version 8.0\n.target sm_80\n.visible .entry double_all()\n{ ret; }\n"


# Two fills race; prints where the memory is.
RACE = """
import ctypes, berth.sim
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 256) == 0
class Array:
    __cuda_array_interface__ = {"typestr": "<f4", "data": (memory.value + 96, False),
                                "shape": (3, 4), "strides": (-16, 8), "version": 3}
berth.sim.name_memory(memory.value, "whole", 256)
berth.sim.name_memory(Array, "tensor")
for start in (0, 63, 64, 124):
    for _ in range(2):
        assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        assert cuda.cuMemsetD8Async(ctypes.c_uint64(memory.value + start), ctypes.c_ubyte(1),
                                    ctypes.c_size_t(1), stream) == 0
"""


class Names(unittest.TestCase):
    def test_memory_is_named_by_address_and_as_an_array(self):
        with tempfile.TemporaryDirectory() as folder:
            findings = os.path.join(folder, "findings")
            environment = os.environ | {"BERTH_SIM_FINDINGS": findings}
            subprocess.run([sys.executable, "-c", RACE], check=True, env=environment)
            with open(findings, encoding="utf-8") as file:
                texts = [json.loads(line).get("text", "") for line in file]
        names = [re.search(r"1 B at 0x[0-9a-f]+ \((.*?)\)", text) for text in texts if text]
        self.assertEqual([found.group(1) for found in names],
                         ["whole", "whole + 63", "tensor", "whole + 124"])

    def test_arguments_that_are_wrong_are_named(self):
        with self.assertRaisesRegex(TypeError, '"memory" is of type list; accepted: an array'):
            berth.sim.name_memory([], "batch")
        with self.assertRaisesRegex(TypeError, '"memory" is of type int; accepted: an array'):
            berth.sim.name_memory(4096, "batch")
        with self.assertRaisesRegex(TypeError, '"name" is of type NoneType; accepted: a str'):
            berth.sim.name_memory(4096, None, 64)
        with self.assertRaisesRegex(ValueError, '"bytes" is -1; accepted: 0 to'):
            berth.sim.name_memory(4096, "batch", -1)


class StandIns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cuda = ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        cls.context = ctypes.c_void_p()
        cls.function, cls.memory = ctypes.c_void_p(), ctypes.c_uint64()
        cls.call("cuInit", 0)
        cls.call("cuDevicePrimaryCtxRetain", ctypes.byref(cls.context), 0)
        cls.call("cuCtxSetCurrent", cls.context)
        cls.call("cuModuleLoadData", ctypes.byref(module), CODE)
        cls.call("cuModuleGetFunction", ctypes.byref(cls.function), module, b"double_all")
        cls.call("cuMemAlloc_v2", ctypes.byref(cls.memory), 64)

    @classmethod
    def call(cls, name, *arguments):
        code = getattr(cls.cuda, name)(*arguments)
        if code != 0:
            raise AssertionError(f"{name}: error {code}")

    def launch(self, count):
        number = ctypes.c_uint32(count)
        arguments = (ctypes.c_void_p * 2)(
            ctypes.addressof(self.memory), ctypes.addressof(number)
        )
        return self.cuda.cuLaunchKernel(self.function, 3, 2, 1, 32, 1, 1, 16, None, arguments, None)

    def tearDown(self):
        berth.sim.remove("double_all")

    def test_results_are_right_and_the_launch_is_told(self):
        launches = []

        @berth.sim.kernel("double_all")
        def double_all(launch):
            launches.append(launch)
            memory = launch.argument(0, ctypes.c_uint64)
            count = launch.argument(1, ctypes.c_uint32)

            def compute(ranges):
                numbers = ranges[0].cast("f")
                for index, number in enumerate(numbers):
                    numbers[index] = 2 * number

            return berth.sim.Work([berth.sim.write(memory, 4 * count)], compute)

        numbers = (ctypes.c_float * 4)(1, 2, 3, 4)
        back = (ctypes.c_float * 4)()
        self.call("cuMemcpyHtoD_v2", self.memory, numbers, 16)
        self.assertEqual(self.launch(3), 0)
        self.call("cuMemcpyDtoH_v2", back, self.memory, 16)
        self.assertEqual(list(back), [2, 4, 6, 4])
        self.assertEqual(launches[0].name, "double_all")
        self.assertEqual(launches[0].grid, (3, 2, 1))
        self.assertEqual(launches[0].block, (32, 1, 1))
        self.assertEqual(launches[0].shared_bytes, 16)
        self.assertEqual(berth.sim._works, {})

    def test_a_thread_calls_the_driver_with_the_interpreters_lock_meanwhile(self):
        computes, called = threading.Event(), threading.Event()
        keeps_the_lock = ctypes.PyDLL("libcuda.so.1")
        waited = []

        @berth.sim.kernel("double_all")
        def double_all(launch):
            def compute(ranges):
                computes.set()
                waited.append(called.wait(60))

            return berth.sim.Work((), compute)

        def call():
            computes.wait(60)
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            keeps_the_lock.cuCtxSetCurrent(self.context)
            keeps_the_lock.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            called.set()

        thread = threading.Thread(target=call)
        thread.start()
        self.assertEqual(self.launch(1), 0)
        thread.join()
        self.assertEqual(waited, [True])

    def test_an_exception_of_compute_is_printed_and_the_work_counts_as_done(self):
        @berth.sim.kernel("double_all")
        def double_all(launch):
            def compute(ranges):
                ranges[0][0] = 7
                raise KeyError("no such number")

            memory = launch.argument(0, ctypes.c_uint64)
            return berth.sim.Work([berth.sim.write(memory, 4)], compute)

        self.call("cuMemsetD8_v2", self.memory, ctypes.c_ubyte(3), ctypes.c_size_t(64))
        raised = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda told: raised.append(told.exc_value)
        try:
            self.assertEqual(self.launch(1), 0)
            back = (ctypes.c_ubyte * 4)()
            self.call("cuMemcpyDtoH_v2", back, self.memory, 4)
        finally:
            sys.unraisablehook = hook
        self.assertEqual(list(back), [7, 3, 3, 3])
        self.assertEqual([type(each) for each in raised], [KeyError])
        self.assertEqual(berth.sim._works, {})

    def test_arguments_that_are_wrong_are_named(self):
        with self.assertRaisesRegex(ValueError, '"address" is -1; accepted: 0 to'):
            berth.sim.write(-1, 4)
        with self.assertRaisesRegex(TypeError, '"bytes" is of type str; accepted: an int'):
            berth.sim.read(0, "4")
        with self.assertRaisesRegex(TypeError, '"uses" is of type int'):
            berth.sim.Work([5])
        with self.assertRaisesRegex(TypeError, '"compute" is of type int'):
            berth.sim.Work((), 5)
        with self.assertRaisesRegex(ValueError, '"duration_ns" is'):
            berth.sim.Work(duration_ns=1 << 64)
        with self.assertRaisesRegex(TypeError, '"name" is of type int; accepted: a str'):
            berth.sim.kernel(5)

    def test_an_exception_refuses_the_launch_and_so_does_a_missing_stand_in(self):
        @berth.sim.kernel("double_all")
        def fails(launch):
            raise KeyError(launch.name)

        self.assertEqual(self.launch(1), 1)
        berth.sim.remove("double_all")
        self.assertEqual(self.launch(1), 801)
        with self.assertRaises(ValueError):
            berth.sim.kernel("")


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main()
