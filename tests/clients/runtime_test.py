#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C program on the CUDA runtime runs by `berth sim`: runtime_test.py BERTH PROGRAM MAJOR."""

import os
import subprocess
import sys
import unittest

BERTH, PROGRAM, MAJOR = sys.argv[1:4]


class Runtime(unittest.TestCase):
    def test_the_program_runs_without_findings(self):
        done = subprocess.run(
            [BERTH, "sim", "--devices", "3", "--", os.path.abspath(PROGRAM)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.stdout, f"CUDA {MAJOR}, 3 devices, bytes equal\n", done.stderr)
        self.assertEqual(done.stderr, "berth sim: no findings\n")
        self.assertEqual(done.returncode, 0)

    def test_call_sites_are_those_of_the_program(self):
        done = subprocess.run(
            [BERTH, "sim", "--", os.path.abspath(PROGRAM), "race"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        for use in ("first use", "second use"):
            self.assertRegex(done.stderr, rf"{use} +\S*runtime_program\S* in main")
        self.assertNotIn("cudart", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
