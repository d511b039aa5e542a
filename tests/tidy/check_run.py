#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The script `run` parses as POSIX shell, names every command and setup that it takes in its usage,
and refuses others without doing anything.

  check_run.py --root CHECKOUT
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path()


def run_script(*words):
    done = subprocess.run(
        ["sh", ROOT / "run", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
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
        for script in ("run", ".ci/run"):
            for shell in ("sh", "dash", "bash"):
                if shutil.which(shell):
                    subprocess.run([shell, "-n", ROOT / script], check=True)

    def test_shellcheck_has_nothing_to_say(self):
        if not shutil.which("shellcheck"):
            self.skipTest("no shellcheck on this machine")
        subprocess.run(["shellcheck", ROOT / "run", ROOT / ".ci/run"], check=True)

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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    ROOT = options.root
    unittest.main(argv=[sys.argv[0], *rest])
