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


def figures(*parts):
    dumps = []
    for part in parts:
        dumps += instructions.dumps_of(PROGRAM, part)[0]
    return instructions.figures_of(dumps)


class Bounds(unittest.TestCase):
    def test_a_registered_backend_adds_none_to_what_programs_do_with_cuda_devices(self):
        values = figures("cuda_path", "beside_backend")["cuda_path"].values
        alone, beside = values["berth"], values["beside_backend"]
        self.assertEqual(set(alone), set(BESIDE_BACKEND), values)
        self.assertEqual(set(beside), set(BESIDE_BACKEND), values)
        for row, most in BESIDE_BACKEND.items():
            self.assertLessEqual(abs(beside[row] - alone[row]), most, row)

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
