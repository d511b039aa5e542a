#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth sim`: signals that arrive when the program has ended, while the command reports."""

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import time
import unittest

from sim_program import BERTH, CASES, SimTest, environment

SECONDS_MAX = 60


def eventually(is_so):
    """Waits for what must happen, on a machine of any speed."""
    end = time.monotonic() + SECONDS_MAX
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError("does not happen")
        time.sleep(0.01)


def is_pending(pid, number):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> number - 1 & 1 for mask in masks)


@unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
class Reporting(SimTest):
    def setUp(self):
        super().setUp()
        self.report = os.path.join(self.folder, "report.json")
        self.here, self.go = (os.path.join(self.folder, name) for name in ("here", "go"))
        os.mkfifo(self.here)
        os.mkfifo(self.go)
        reader = self.write("addr2line", (
            "#!/bin/sh\n"
            f"mkdir {self.folder}/once 2> /dev/null || exec {shutil.which('addr2line')} \"$@\"\n"
            f"echo here > {self.here}\n"
            f"read line < {self.go}\n"
            f"exec {shutil.which('addr2line')} \"$@\"\n"))
        os.chmod(reader, 0o755)

    def start(self, path):
        """A command in a group of its own, whose program has a race and waits for a signal."""
        env = environment({"BERTH_DRIVER": None, "PATH": path})
        process = subprocess.Popen(
            [BERTH, "sim", "--json", self.report, "--", CASES, "race", "wait"], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        return process

    def start_report(self):
        """A command that has begun to look for lines of source code, and waits for them."""
        here = os.open(self.here, os.O_RDWR)
        self.addCleanup(os.close, here)
        process = self.start(f"{self.folder}:{os.environ['PATH']}")
        process.send_signal(signal.SIGTERM)
        self.assertTrue(select.select([here], [], [], SECONDS_MAX)[0], "no addr2line")
        return process

    def signal_group(self, process, number):
        os.killpg(process.pid, number)
        eventually(lambda: not is_pending(process.pid, number))

    def test_a_process_and_its_group_are_signalled_at_once(self):
        process = self.start(os.environ["PATH"])
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(process.returncode, 7, err)
        self.assertRegex(err, r"first use +\S*cases.c:\d+ in produce\n")
        with open(self.report, encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["findings"]), 1)

    def test_two_signals_do_not_end_the_report(self):
        process = self.start_report()
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.signal_group(process, number)
            self.signal_group(process, signal.SIGUSR1)
        with open(self.go, "w", encoding="utf-8") as file:
            file.write("\n")
        _, err = process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(process.returncode, 7, err)
        self.assertRegex(err, r"first use +\S*cases.c:\d+ in produce\n")
        with open(self.report, encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["findings"]), 1)

    def test_a_third_signal_ends_the_report_and_keeps_an_older_one(self):
        self.write("report.json", "of an earlier run")
        process = self.start_report()
        for _ in range(2):
            self.signal_group(process, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(process.returncode, -signal.SIGINT)
        with open(self.report, encoding="utf-8") as file:
            self.assertEqual(file.read(), "of an earlier run")
        eventually(self.has_no_reader)

    def has_no_reader(self):
        """Whether the program that looks for lines has ended, too."""
        try:
            os.close(os.open(self.go, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno == errno.ENXIO
        return False


if __name__ == "__main__":
    unittest.main()
