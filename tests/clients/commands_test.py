#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpustat and nvitop show the simulated devices."""

import unittest

import client

OPTIONS = ("--devices", "2", "--memory", "24GiB")


class Commands(unittest.TestCase):
    def run_module(self, name, *arguments):
        program = f"sys.argv = {[name, *arguments]!r}; "
        program += f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
        done = client.sim("commands", *OPTIONS, program=program)
        self.assertEqual(done.returncode, 0, client.story(done))
        return done.stdout

    def test_gpustat(self):
        shown = self.run_module("gpustat", "--no-color")
        for device in range(2):
            self.assertRegex(shown, rf"\[{device}\] Simulated GPU .*\b0 / 24576 MB")

    def test_nvitop(self):
        shown = self.run_module("nvitop", "--once", "--ascii")
        for device in range(2):
            self.assertRegex(shown, rf"\| +{device}  Simulated GPU")
        self.assertEqual(shown.count("/ 24.00GiB"), 2)
        self.assertIn("CUDA Driver Version: 13.0", shown)


if __name__ == "__main__":
    client.main("commands")
