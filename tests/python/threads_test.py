# SPDX-License-Identifier: Apache-2.0
"""Objects of the Python module that several threads use, close and free at once."""

import copy
import pickle
import threading
import unittest

import berth


def run_all(*functions):
    """Runs each on a thread of its own. Returns what they raised."""
    raised = []

    def run(function):
        try:
            function()
        except Exception as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def allocate(memory, times=100):
    for _ in range(times):
        memory.allocate(1000)


class Threads(unittest.TestCase):
    def expect_closed(self, raised):
        for error in raised:
            self.assertIsInstance(error, berth.InvalidArgument)
            self.assertRegex(str(error), "is closed|has live objects")

    def test_a_runtime_may_be_closed_while_others_allocate(self):
        for _ in range(20):
            runtime = berth.Runtime()
            memory = runtime.memory("cuda:0")
            self.expect_closed(
                run_all(lambda: allocate(memory), lambda: allocate(memory), runtime.close)
            )

    def test_a_pool_may_be_closed_while_others_allocate(self):
        with berth.Runtime() as runtime:
            memory = runtime.memory("cuda:0")
            for _ in range(50):
                pool = memory.create_pool("p")
                self.expect_closed(
                    run_all(lambda: allocate(pool), lambda: allocate(pool), pool.close)
                )

    def test_a_block_is_freed_once(self):
        with berth.Runtime() as runtime:
            memory = runtime.memory("cuda:0")
            for _ in range(100):
                block = memory.allocate(100)
                self.assertEqual(run_all(*[block.free] * 4), [])
            self.assertEqual(memory.counters().frees, 100)

    def test_a_stream_is_released_once(self):
        with berth.Runtime() as runtime:
            for _ in range(100):
                stream = runtime.stream("cuda:0")
                self.assertEqual(run_all(*[stream.release] * 4), [])

    def test_owners_cannot_be_copied(self):
        with berth.Runtime() as runtime:
            memory = runtime.memory("cuda:0")
            owners = [runtime, memory, memory.allocate(10), memory.create_pool("p")]
            for owner in [*owners, runtime.stream("cuda:0")]:
                for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, "cannot be copied"):
                        copied(owner)

    def test_a_runtime_that_is_left_with_a_live_block_ends_after_it(self):
        with berth.Runtime() as runtime:
            memory = runtime.memory("cuda:0")
            block = memory.allocate(100)
        self.assertEqual(memory.counters().blocks_allocated.current, 1)
        block.free()
        self.assertEqual(memory.counters().blocks_allocated.current, 0)

    def test_the_exception_of_a_with_block_is_kept(self):
        with self.assertRaises(KeyError):
            with berth.Runtime() as runtime:
                block = runtime.memory("cuda:0").allocate(100)
                raise KeyError(block.bytes)


if __name__ == "__main__":
    unittest.main()
