#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that must not grow: with a registered backend, or with the number of copies before.

  instruction_bounds_test.py COUNT_INSTRUCTIONS

Exit status 77 without valgrind: skipped.
"""

import shutil
import sys
import unittest
from pathlib import Path

import instructions

# By how many instructions an operation may differ: those of the simulated driver, which are counted
# too, depend on addresses.
BESIDE_BACKEND = {"pair_hit": 0, "memory": 0, "resolve": 0, "guard": 0, "copy": 1}
#: On a busy machine, a copy sometimes waits for a thread and takes more. The least reading counts.
READINGS_MAX = 5


def figures(*parts):
    dumps = []
    for part in parts:
        dumps += instructions.dumps_of(PROGRAM, part)[0]
    return instructions.figures_of(dumps)


class Bounds(unittest.TestCase):
    def test_a_registered_backend_adds_none_to_what_programs_do_with_cuda_devices(self):
        least = {"berth": {}, "beside_backend": {}}
        for _ in range(READINGS_MAX):
            values = figures("cuda_path", "beside_backend")["cuda_path"].values
            for column, so_far in least.items():
                self.assertEqual(set(values[column]), set(BESIDE_BACKEND), values)
                for row, value in values[column].items():
                    so_far[row] = min(value, so_far.get(row, value))
            differs = {
                row: least["beside_backend"][row] - least["berth"][row]
                for row, most in BESIDE_BACKEND.items()
                if abs(least["beside_backend"][row] - least["berth"][row]) > most
            }
            if not differs:
                return
        self.fail(f"{differs}: {least}")

    def test_a_small_copy_after_30_000_others_takes_what_an_early_one_takes(self):
        of_berth = figures("small_copies")["copy_small_in"].values["berth"]
        self.assertGreater(of_berth["10"], 0, of_berth)
        self.assertLessEqual(of_berth["30000"], 1.2 * of_berth["10"], of_berth)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        print("no valgrind")
        sys.exit(77)
    PROGRAM = Path(sys.argv.pop(1))
    unittest.main()
