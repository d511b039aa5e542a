# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command `berth` share. Each test script is run as

  SCRIPT BERTH LIBCUDA [unittest's arguments]

with the command and the simulated driver's library. Everything runs on the simulated driver,
whatever the machine has.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
LIBCUDA = os.path.abspath(sys.argv.pop(1))
KIB = 1 << 10
MIB = 1 << 20
HEADER = "op,id,bytes,stream,device,t_us\n"

# 5 MiB are live at once, 3 of them on a stream of their own.
TRACE = HEADER + (
    f"alloc,1,{2 * MIB},0,0,0\n"
    f"alloc,2,{3 * MIB},1,0,1\n"
    f"free,1,{2 * MIB},0,0,2\n"
    f"alloc,3,{MIB},0,0,3\n"
)


class Outcome:
    """How a run of the command ended."""

    def __init__(self, arguments, process):
        self.exit_code = process.returncode
        self.out = process.stdout
        self.err = process.stderr
        self.story = (
            f"berth {' '.join(arguments)}: exit code {self.exit_code}\n"
            f"--- standard output\n{self.out}--- standard error\n{self.err}---"
        )

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f"no JSON ({error})\n{self.story}") from None


def environment(changes):
    """The environment with `changes`; None takes a variable away."""
    # LD_LIBRARY_PATH may name the look-alike libraries, which then pass for a driver.
    unset = ("BERTH_CONF", "BERTH_SIM", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
    names = {"BERTH_DRIVER": "sim"} | dict.fromkeys(unset) | changes
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    return inherited | {name: value for name, value in names.items() if value is not None}


def berth(*arguments, env=None, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    process = subprocess.run(
        [BERTH, *arguments], text=True, env=environment(env or {}), timeout=120, **options
    )
    return Outcome(arguments, process)


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.trace = self.write("small.csv", TRACE)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_success(self, outcome, quiet=True):
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        if quiet:
            self.assertEqual(outcome.err, "", outcome.story)
        return outcome

    def assert_error(self, outcome, exit_code, *words):
        """One line on standard error that has every word."""
        self.assertEqual(outcome.exit_code, exit_code, outcome.story)
        lines = [line for line in outcome.err.splitlines() if line.startswith("berth: error: ")]
        self.assertEqual(len(lines), 1, outcome.story)
        self.assertEqual(outcome.err.strip(), lines[0], outcome.story)
        for word in words:
            self.assertIn(word, lines[0], outcome.story)
