#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module where an interpreter ends, forks, or finds no library."""

import os
import subprocess
import sys
import textwrap
import unittest

import packages

packages.use()
try:
    import numpy
except ImportError:
    numpy = None


def run(program, **environment):
    """The exit status and all output of a program in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        cwd=os.path.dirname(os.path.abspath(__file__)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


LIVE = """
    import berth
    runtime = berth.Runtime()
    stream = runtime.stream("cuda:0")
    block = runtime.memory("cuda:0").allocate(1 << 20, stream)
    pinned = runtime.pinned_memory.allocate(1 << 20)
    runtime.copy_async(block, pinned, 1 << 20, stream)
    pool = runtime.memory("cuda:0").create_pool("weights")
    in_pool = pool.allocate(1000)
"""


class ExitTest(unittest.TestCase):
    def test_with_live_memory(self):
        self.assertEqual(run(LIVE), (0, ""))

    def test_with_a_cycle(self):
        self.assertEqual(run(LIVE + "    cycle = [block]; cycle.append(cycle); del block"), (0, ""))

    def test_with_callbacks(self):
        program = """
            import berth
            runtime = berth.Runtime(
                report=lambda *said: print("reported", said), on_pressure=lambda bytes: False,
                configuration="release_unused_after=1ms")
            block = runtime.memory("cuda:0").allocate(1 << 20)
            del runtime
        """
        self.assertEqual(run(program), (0, ""))

    def test_a_callback_is_not_called_once_the_interpreter_ends(self):
        program = """
            import berth
            runtime = berth.Runtime(
                on_unmap=lambda range: None, configuration="release_unused_after=1ms")
            runtime.memory("cuda:0").allocate(1 << 20).free()
        """
        for _ in range(5):
            self.assertEqual(run(program), (0, ""))

    def test_with_a_thread_in_callbacks(self):
        program = """
            import berth, threading
            runtime = berth.Runtime(
                on_map=lambda range: True, on_unmap=lambda range: None,
                on_pressure=lambda bytes: False, configuration="bytes_reserved_max=16MiB")
            memory = runtime.memory("cuda:0")
            def work():
                while True:
                    try:
                        memory.allocate(8 << 20)
                        memory.allocate(32 << 20)
                    except berth.OutOfMemory:
                        memory.trim()
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            import time; time.sleep(0.05)
        """
        for _ in range(5):
            self.assertEqual(run(program), (0, ""))

    def test_with_a_thread_that_goes_on(self):
        program = LIVE + """
    import threading
    def work():
        while True:
            runtime.memory("cuda:0").allocate(1 << 20)
    threading.Thread(target=work, daemon=True).start()
    """
        for _ in range(5):
            self.assertEqual(run(program), (0, ""))

    def test_an_importer_that_outlives_the_interpreter_calls_nothing(self):
        program = """
            import atexit, ctypes
            @atexit.register  # runs after what is registered later
            def last():
                print("deleter", struct.deleter)
            import berth
            from berth import dlpack_abi
            runtime = berth.Runtime()
            capsule = runtime.host_memory.allocate(100).__dlpack__()
            address = dlpack_abi.pointer_of(id(capsule), b"dltensor")
            struct = dlpack_abi.Managed.from_address(address)
            dlpack_abi.rename(id(capsule), b"used_dltensor")
            assert struct.deleter
        """
        self.assertEqual(run(program), (0, "deleter None\n"))

    @unittest.skipIf(numpy is None, "numpy was not found")
    def test_with_arrays_of_numpy(self):
        program = """
            import packages; packages.use()
            import sys, numpy, berth
            runtime = berth.Runtime()
            block = runtime.host_memory.allocate(1000)
            array = numpy.from_dlpack(block)
            sys.kept = numpy.from_dlpack(runtime.pinned_memory.allocate(1000))
            sys.capsule = block.__dlpack__()
            other = numpy.asarray(block)
            del runtime
        """
        self.assertEqual(run(program), (0, ""))


class ForkTest(unittest.TestCase):
    def test_a_child_frees_nothing_and_gets_nothing(self):
        program = LIVE + """
    import gc, os
    child = os.fork()
    if child == 0:
        try:
            runtime.memory("cuda:0").allocate(1000)
        except berth.NotSupported:
            pass
        else:
            os._exit(2)
        block.free()
        assert runtime.host_memory.allocate(1000).pointer
        del in_pool, pool, pinned, stream, runtime
        gc.collect()
        raise SystemExit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    block.free()
    assert runtime.memory("cuda:0").allocate(1 << 20).pointer
    """
        self.assertEqual(run(program), (0, ""))

    def test_a_runtime_in_the_child_of_a_busy_process_says_that_it_comes_too_late(self):
        program = """
            import os, signal, threading, berth
            runtime = berth.Runtime()
            memory = runtime.memory("cuda:0")
            stop = threading.Event()

            def work():
                while not stop.is_set():
                    memory.allocate(1 << 20).free()
                    memory.trim()

            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    late = berth.Runtime()
                    assert late.devices == [] and not late.driver.usable
                    assert "was forked from one that had initialized CUDA" in late.driver.problem
                    try:
                        late.stream("cuda:0")
                    except berth.InvalidArgument as error:
                        assert "was forked from one that had initialized CUDA" in str(error)
                        raise SystemExit(3)
                    raise SystemExit(4)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            stop.set()
            for thread in threads:
                thread.join()
        """
        self.assertEqual(run(program), (0, ""))

    def test_a_child_that_makes_its_own(self):
        program = """
            import os, berth
            child = os.fork()
            if child == 0:
                berth.Runtime().memory("cuda:0").allocate(1000)
                raise SystemExit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            berth.Runtime().memory("cuda:0").allocate(1000)
        """
        self.assertEqual(run(program), (0, ""))


class LibraryTest(unittest.TestCase):
    def test_a_library_that_is_missing(self):
        status, said = run("import berth", BERTH_LIBRARY="/nowhere/libberth.so.0")
        self.assertEqual(status, 1)
        self.assertIn("ImportError: BERTH_LIBRARY: /nowhere/libberth.so.0", said)

    def test_a_library_of_others(self):
        status, said = run("import berth", BERTH_LIBRARY="libc.so.6")
        self.assertEqual(status, 1)
        self.assertIn("ImportError: BERTH_LIBRARY: libc.so.6 is not libberth.so.0", said)

    def test_no_library_at_all(self):
        status, said = run("import berth", BERTH_LIBRARY="", LD_LIBRARY_PATH="/nowhere")
        if status != 0:  # else there is an installed one
            self.assertIn("ImportError: libberth.so.0 was not found in", said)
            self.assertIn("BERTH_LIBRARY", said)


if __name__ == "__main__":
    unittest.main()
