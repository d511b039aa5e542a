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

SAME_BESIDE_BACKEND = {"pair_hit", "memory", "resolve", "guard"}
# By how many instructions a copy may differ: those of the simulated driver, which are counted too,
# depend on addresses.
COPY_DIFFERENCE_MAX = 1
# On a busy machine, a copy sometimes waits for a thread and takes more. The least reading counts.
READINGS_MAX = 5


def figures(*parts):
    dumps = []
    for part in parts:
        dumps += instructions.dumps_of(PROGRAM, part)[0]
    return instructions.figures_of(dumps)


class Bounds(unittest.TestCase):
    def test_a_registered_backend_adds_none_to_what_programs_do_with_cuda_devices(self):
        copies_alone, copies_beside = [], []
        for _ in range(READINGS_MAX):
            values = figures("cuda_path", "beside_backend")["cuda_path"].values
            alone, beside = values["berth"], values["beside_backend"]
            self.assertEqual(set(alone), SAME_BESIDE_BACKEND | {"copy"}, values)
            self.assertEqual(set(beside), set(alone), values)
            for row in SAME_BESIDE_BACKEND:
                self.assertEqual(beside[row], alone[row], row)
            copies_alone.append(alone["copy"])
            copies_beside.append(beside["copy"])
            if abs(min(copies_beside) - min(copies_alone)) <= COPY_DIFFERENCE_MAX:
                return
        self.fail(f"copies alone {copies_alone}, beside a backend {copies_beside}")

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
