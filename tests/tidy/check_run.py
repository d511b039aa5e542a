#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The script `run` parses as POSIX shell, names every command and setup that it takes in its usage,
and refuses others without doing anything; what it says of tests last names those that failed.

  check_run.py --root CHECKOUT
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path()


def run_script(*words):
    done = subprocess.run(
        ["sh", ROOT / "run", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def commands():
    text = (ROOT / "run").read_text(encoding="utf-8")
    main = text[text.index("\nmain() {") :]
    return re.findall(r"^ *([a-z][a-z-]*)\)", main, re.MULTILINE)


def setups():
    text = (ROOT / "run").read_text(encoding="utf-8")
    return re.search(r"^setups='(.*)'$", text, re.MULTILINE).group(1).split()


class RunTest(unittest.TestCase):
    def test_every_shell_that_is_here_parses_it(self):
        for script in ("run", ".ci/run", "tests/wheels.sh"):
            for shell in ("sh", "dash", "bash"):
                if shutil.which(shell):
                    subprocess.run([shell, "-n", ROOT / script], check=True)

    def test_shellcheck_has_nothing_to_say(self):
        if not shutil.which("shellcheck"):
            self.skipTest("no shellcheck on this machine")
        subprocess.run(
            ["shellcheck", "-x", "-P", ROOT, ROOT / "run", ROOT / ".ci/run"], check=True
        )

    def test_without_a_command_it_prints_every_command_and_setup(self):
        status, usage, _ = run_script()
        self.assertEqual(status, 2)
        self.assertIn("gpu-bundle", commands())
        for command in commands():
            self.assertRegex(usage, rf"(?m)^  {command}\b")
        self.assertIn("tsan", setups())
        for setup in setups():
            self.assertRegex(usage, rf"\b{setup}\b")

    def test_an_unknown_command_is_named_and_refused(self):
        status, usage, problem = run_script("tset")
        self.assertEqual(status, 2)
        self.assertIn('"tset"', problem)
        self.assertIn("gpu-bundle", usage)

    def test_an_unknown_setup_is_refused_before_anything_is_built(self):
        status, output, problem = run_script("test", "gcc", "msan")
        self.assertEqual(status, 2)
        self.assertIn('"msan"', problem)
        self.assertIn("tsan", problem)
        self.assertEqual(output, "")


class SummaryTest(unittest.TestCase):
    def summed_up(self, *ended, folder=None, **setups):
        """Exit status and output for tests that ended so in `setups`, which ran in the folder of
        their name or in `folder`."""
        with tempfile.TemporaryDirectory() as build:
            for setup, tests in setups.items():
                logs = pathlib.Path(build) / (folder or setup) / "meson-logs"
                logs.mkdir(parents=True, exist_ok=True)
                lines = [json.dumps(test) + "\n" for test in tests]
                (logs / f"{setup}-short.json").write_text("".join(lines), encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-B", ROOT / "tests/summary.py", build, "short", *ended],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def test_counts_are_over_all_setups(self):
        fine = {"name": "base", "result": "OK"}
        skipped = {"name": "outside", "result": "SKIP"}
        found = self.summed_up("gcc=0", "clang=0", gcc=[fine, skipped], clang=[fine])
        self.assertEqual(found, (0, "2 passed, 0 failed, 1 skipped\n"))

    def test_setups_that_share_a_folder_are_told_apart(self):
        fine = {"name": "base", "result": "OK"}
        found = self.summed_up("gcc=0", "pjrt=0", folder="gcc", gcc=[fine, fine], pjrt=[fine])
        self.assertEqual(found, (0, "3 passed, 0 failed\n"))

    def test_what_failed_is_named_with_the_end_of_what_it_printed(self):
        printed = "\n".join(f"line {number}" for number in range(1000))
        failed = {"name": "memory", "result": "TIMEOUT", "stdout": printed, "stderr": "\nwhy"}
        fine = {"name": "base", "result": "OK"}
        status, output = self.summed_up("asan=1", "gcc=0", asan=[failed], gcc=[fine])
        self.assertEqual(status, 1)
        self.assertIn("asan, memory: TIMEOUT\n", output)
        self.assertNotIn("line 0\n", output)
        self.assertTrue(output.endswith("line 999\n  why\n1 passed, 1 failed\n"), output)

    def test_a_setup_whose_tests_did_not_run_or_that_ended_badly_counts_as_failed(self):
        status, output = self.summed_up("clang=3", "gcc=1", gcc=[{"name": "base", "result": "OK"}])
        self.assertEqual(status, 1)
        self.assertIn("clang: exit status 3, 0 tests ran", output)
        self.assertIn("gcc: exit status 1, 1 tests ran", output)
        self.assertTrue(output.endswith("\n1 passed, 2 failed\n"), output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    ROOT = options.root
    unittest.main(argv=[sys.argv[0], *rest])
