#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth.torch with a stand-in for PyTorch, which calls libberth_torch.so as PyTorch does: by name
and by address. Which calls PyTorch itself makes is not tested here.
"""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import berth

MIB = 1 << 20
ADDRESSES = {
    "set_init_fn": ctypes.CFUNCTYPE(None, ctypes.c_int),
    "set_reset_fn": ctypes.CFUNCTYPE(None),
    "set_memory_fraction_fn": ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int),
    "set_base_alloc_fn": ctypes.CFUNCTYPE(
        ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    ),
    "set_record_stream_fn": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p),
    # Those with parameters of C++ are called by torch_allocator_test.cpp.
    "set_begin_allocate_to_pool": ctypes.CFUNCTYPE(None),
    "set_end_allocate_to_pool_fn": ctypes.CFUNCTYPE(None),
    "set_release_pool": ctypes.CFUNCTYPE(None),
}


class Hooks:
    """What CUDAPluggableAllocator.allocator() returns."""

    def __init__(self, alloc, free):
        self.alloc, self.free = alloc, free
        self.functions = {}

    def __getattr__(self, name):
        return lambda address: self.functions.update({name: ADDRESSES[name](address)})


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        alloc, free = getattr(library, alloc), getattr(library, free)
        alloc.restype = ctypes.c_void_p
        alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        free.restype = None
        free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.hooks = Hooks(alloc, free)

    def allocator(self):
        return self.hooks


class MemPool:
    def __init__(self, allocator=None):
        self.allocator = allocator


class StandIn(types.ModuleType):
    """The module `torch`, as far as berth.torch uses it."""

    def __init__(self):
        super().__init__("torch")
        self.__version__ = "0"
        self.version = types.SimpleNamespace(cuda="13.0")
        self.current = None
        self.used = []
        self.cuda = types.SimpleNamespace(
            memory=types.SimpleNamespace(
                CUDAPluggableAllocator=CUDAPluggableAllocator,
                change_current_allocator=self.change,
            ),
            MemPool=MemPool,
            use_mem_pool=self.use,
        )

    def change(self, allocator):
        if self.current is not None:
            raise RuntimeError("Can't swap an already initialized allocator")
        self.current = allocator

    @contextlib.contextmanager
    def use(self, pool):
        self.used.append(pool)
        yield
        self.used.pop()


torch = sys.modules["torch"] = StandIn()

import berth.torch  # noqa: E402  the stand-in comes first
from berth._library import beside  # noqa: E402
from berth.torch import _full  # noqa: E402


class EnableTest(unittest.TestCase):
    def setUp(self):
        berth.torch.enable()
        self.hooks = torch.current.allocator()
        self.memory = berth.torch.runtime().memory("cuda:0")

    def test_each_hook_is_set_and_enabling_twice_does_nothing(self):
        self.assertEqual(set(self.hooks.functions), set(berth.torch.HOOKS))
        before = torch.current
        berth.torch.enable()
        self.assertIs(torch.current, before)
        self.assertTrue(berth.torch.is_enabled())
        with self.assertRaisesRegex(berth.InvalidArgument, "full=False"):
            berth.torch.enable(full=True)
        with self.assertRaisesRegex(TypeError, "full"):
            berth.torch.enable(full="no")

    def test_the_module_and_the_library_are_of_one_version(self):
        functions = ctypes.CDLL(beside("libberth_torch.so")).berth_torch_functions
        functions.restype = ctypes.c_void_p
        self.assertIsNotNone(functions(_full.VERSION))
        header = (_full.FOLDER / "memory_functions.hpp").read_text(encoding="utf-8")
        self.assertIn(f"kMemoryFunctionsVersion = {_full.VERSION};", header)

    def test_blocks_are_those_of_the_runtime(self):
        self.hooks.functions["set_init_fn"](2)
        before = self.memory.counters().bytes_allocated.current
        block = self.hooks.alloc(MIB, 0, None)
        self.assertEqual(self.memory.counters().bytes_allocated.current, before + MIB)
        self.assertTrue(self.memory.owns(block))
        size = ctypes.c_size_t()
        base = self.hooks.functions["set_base_alloc_fn"](block + 1000, ctypes.byref(size))
        self.assertEqual((base, size.value), (block, MIB))
        self.hooks.free(block, MIB, 0, None)
        self.assertEqual(self.memory.counters().bytes_allocated.current, before)

    def test_one_libberth_is_loaded(self):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "libberth.so" in line}
        self.assertEqual(len(paths), 1)

    def test_reset_and_fraction(self):
        functions = self.hooks.functions
        self.hooks.free(self.hooks.alloc(16 * MIB, 0, None), 0, 0, None)
        functions["set_reset_fn"]()
        self.assertLess(self.memory.counters().bytes_reserved.current, 16 * MIB)
        functions["set_memory_fraction_fn"](8 / 1024, 0)
        with self.assertRaises(berth.OutOfMemory):
            self.memory.allocate(16 * MIB)
        functions["set_memory_fraction_fn"](1.0, 0)

    def test_record_stream(self):
        runtime = berth.torch.runtime()
        reader = runtime.stream("cuda:0")
        pinned = runtime.pinned_memory.allocate(MIB)
        block = self.hooks.alloc(MIB, 0, None)
        runtime.copy_async(pinned, block, MIB, reader)
        self.hooks.functions["set_record_stream_fn"](block, reader.handle)
        self.hooks.free(block, MIB, 0, None)
        self.assertEqual(self.memory.counters().blocks_pending.current, 1)
        reader.sync()

    def test_the_runtime_cannot_be_closed(self):
        with self.assertRaisesRegex(berth.InvalidArgument, "owner"):
            berth.torch.runtime().close()


class PoolTest(unittest.TestCase):
    def setUp(self):
        # EnableTest has enabled berth for the process.
        with self.assertRaisesRegex(berth.NotSupported, "all tensors"):
            berth.torch.enable()
            berth.torch.Pool("weights", "cuda:1")
        disabled = unittest.mock.patch.object(berth.torch._State, "is_full", None)
        disabled.start()
        self.addCleanup(disabled.stop)

    def test_a_pool_neither_sleeps_in_use_nor_is_used_asleep(self):
        pool = berth.torch.Pool("cache", "cuda:1")
        with pool.use():
            block = pool.mem_pool.allocator.alloc(2 * MIB, 1, None)
            with pool.use(), self.assertRaisesRegex(berth.InvalidArgument, "in use"):
                pool.sleep()
            with self.assertRaisesRegex(berth.InvalidArgument, "in use"):
                pool.sleep()
        self.assertEqual(pool.sleep(), 2 * MIB)
        used = list(torch.used)
        with self.assertRaisesRegex(berth.InvalidArgument, "cache is asleep"):
            with pool.use():
                pass
        self.assertEqual(torch.used, used)
        pool.wake()
        with pool.use():
            pass
        pool.mem_pool.allocator.free(block, 2 * MIB, 1, None)

    def test_segments_come_from_the_pool_and_sleep(self):
        weights = berth.torch.Pool("weights", "cuda:1", bytes_max=8 * MIB)
        hooks = weights.mem_pool.allocator
        with weights.use():
            self.assertEqual(torch.used, [weights.mem_pool])
            segment = hooks.alloc(2 * MIB, 1, None)
            self.assertIsNone(hooks.alloc(20 * MIB, 1, None))  # PyTorch raises
        beside = hooks.alloc(2 * MIB, 1, None)
        self.assertEqual(
            [weights.pool.owns(address) for address in (segment, beside)], [True, False]
        )
        self.assertEqual(weights.sleep(), 2 * MIB)
        weights.wake()
        for address in (segment, beside):
            hooks.free(address, 2 * MIB, 1, None)
        self.assertEqual(weights.pool.counters().blocks_allocated.current, 0)


def run(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-B", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class CommandTest(unittest.TestCase):
    """`python -m berth.torch`, where the stand-in is a module of the program's folder."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("torch.py", f"import sys\nsys.path.append({os.path.dirname(__file__)!r})\n"
                   "from torch_test import torch\nsys.modules['torch'] = torch\n")  # fmt: skip
        self.write("program.py", "import sys, berth.torch, torch, beside\n"
                   "print(__name__, sys.argv[1:], berth.torch.is_enabled())\n"
                   "torch.current.allocator().alloc(1000, 0, None)\n")  # fmt: skip
        self.write("beside.py", "")

    def write(self, name, text):
        with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run_command(self, *words, **environment):
        path = f"{self.folder.name}:{os.environ.get('PYTHONPATH', '')}"
        return run("-m", "berth.torch", *words, PYTHONPATH=path, **environment)

    def test_programs(self):
        program = os.path.join(self.folder.name, "program.py")
        expected = (0, "__main__ ['--epochs', '1'] True\n", "")
        self.assertEqual(self.run_command(program, "--epochs", "1"), expected)
        self.assertEqual(self.run_command("-m", "program", "--epochs", "1"), expected)

    def test_usage(self):
        self.assertEqual(self.run_command("--help")[0], 0)
        for words in ((), ("-m",), ("--unknown",)):
            status, _, said = self.run_command(*words)
            self.assertEqual(status, 1)
            self.assertIn("usage:", said)
        self.assertIn('"--unknown"', said)

    def test_a_cache_that_cannot_be_written(self):
        command = ["g++", "-c"]
        target = pathlib.Path(self.folder.name) / "beside.py" / "berth" / "library.so"
        with self.assertRaisesRegex(berth.NotSupported, "beside.py/berth: Not a dir.*XDG_CACHE"):
            _full._compile(command, target, torch)
        with unittest.mock.patch.dict(os.environ, CXX="/no/compiler"):
            with self.assertRaisesRegex(berth.NotSupported, 'there is no "/no/compiler"; accepted'):
                _full._command(types.SimpleNamespace(__file__=__file__))

    def test_a_wrong_option_is_told_at_once(self):
        status, _, said = self.run_command("-m", "program", BERTH_CONF="no_such_key=1")
        self.assertEqual(status, 1)
        self.assertIn("InvalidArgument", said)
        self.assertIn("no_such_key", said)

    def test_a_pytorch_without_cuda(self):
        self.write("torch.py", "import types\n__version__ = '2.0'\n"
                   "version = types.SimpleNamespace(cuda=None)\n")  # fmt: skip
        status, _, said = self.run_command("-m", "program")
        self.assertEqual(status, 1)
        self.assertIn("PyTorch (2.0) is built without CUDA", said)


if __name__ == "__main__":
    unittest.main()
