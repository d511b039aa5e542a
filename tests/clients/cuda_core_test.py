#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda-core on the simulated driver: what it does without kernels and compilers, in the cases of
cuda_core_program.py. Its package has no tests of its own."""

import re
import unittest

import client

#: The cases of the program.
COUNT = 15


class CudaCore(unittest.TestCase):
    def test_the_program_runs_without_findings(self):
        program = "runpy.run_path('cuda_core_program.py', run_name='__main__')"
        for options in ((), ("--seeds", "5")):
            done = client.sim(
                "numba", "--devices", "2", "--memory", "1GiB", *options, program=program
            )
            ran = re.search(r"^Ran (\d+) tests? in .*\n\nOK", done.stderr, re.MULTILINE)
            self.assertIsNotNone(ran, client.story(done))
            self.assertEqual(int(ran.group(1)), COUNT)
            self.assertIn("berth sim: no findings", done.stderr)
            self.assertEqual(done.returncode, 0, client.story(done))


if __name__ == "__main__":
    client.main("numba")
