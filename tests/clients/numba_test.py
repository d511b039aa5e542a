#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""numba-cuda's own tests of the driver, on the simulated one: those modules that need no compiler
of NVIDIA's and no kernel. The number of tests that pass is that of the pinned version."""

import re
import unittest

import client

#: Tests that run in each module.
MODULES = {
    "cuda_memory": 15,
    "deallocations": 13,
    "emm_plugins": 6,
    "events": 3,
    "pinned": 2,
}


class Numba(unittest.TestCase):
    def test_its_driver_tests_pass(self):
        for module, count in MODULES.items():
            program = "import unittest; unittest.main(module=None, argv=['', "
            program += f"'numba.cuda.tests.cudadrv.test_{module}'])"
            done = client.sim("numba", "--memory", "1GiB", "--checks", "off", program=program)
            ran = re.search(r"^Ran (\d+) tests? in .*\n\nOK", done.stderr, re.MULTILINE)
            self.assertIsNotNone(ran, client.story(done))
            self.assertEqual(int(ran.group(1)), count, module)


if __name__ == "__main__":
    client.main("numba")
