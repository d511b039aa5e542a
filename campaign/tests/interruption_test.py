#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A campaign that is interrupted, at each of its stages: what it has is kept, and nothing goes on
running."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import campaign_case
from campaign_case import CAMPAIGN, GOOD, HANGS, CampaignCase, part

import processes
import program_run

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HANGS_WITH_A_CHILD = f"""
import json, subprocess
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(json.dumps({{"child": child.pid}}), flush=True)
{HANGS}
"""


class JumpingClock:
    """Is an hour later at once when the first row has come."""

    def __init__(self, rows):
        self.rows = rows
        self.now = time.monotonic

    def __call__(self):
        return self.now() + (30 if self.rows else 0)


class InterruptionTest(CampaignCase):
    def start(self, *parts):
        shutil.rmtree(self.out, ignore_errors=True)
        with open(self.folder / "said", "wb") as said:
            process = subprocess.Popen(
                self.command(*parts),
                env=self.environment,
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in SIGNALS],
            )
        self.addCleanup(process.kill)
        return process

    def said(self):
        return (self.folder / "said").read_text(encoding="utf-8")

    def has_rows(self, name):
        return (self.out / f"{name}.json").exists() and self.result(name)["rows"]

    def assert_ends_by(self, process, number):
        process.send_signal(number)
        self.assertEqual(process.wait(), 128 + number, self.said())
        self.assertNotIn("Traceback", self.said())
        self.assertEqual(self.result("campaign")["interrupted"], number.name)

    def test_it_keeps_what_it_has(self):
        for number in SIGNALS:
            process = self.start(
                part("good", GOOD), part("hung", HANGS_WITH_A_CHILD), part("after", GOOD)
            )
            self.wait_until(lambda: self.has_rows("hung"))
            self.assert_ends_by(process, number)
            self.assertEqual(
                self.result("campaign")["parts"], {"good": "done", "hung": "interrupted"}
            )
            self.assertEqual(self.outcome("good"), "done")
            self.assertEqual(self.outcome("hung"), "interrupted")
            self.assertFalse((self.out / "after.json").exists())
            self.assert_ended(self.result("hung")["rows"][0]["child"])

    def test_kernels_that_are_being_compiled_are_given_up(self):
        started = self.folder / "started"
        tool = self.add_program("nvcc/nvcc", f"sleep 1000 & echo $! > {started}; wait")
        (self.bundle / "kernels").mkdir()
        shutil.copy2(CAMPAIGN / "kernels/kernels.cu", self.bundle / "kernels")
        self.environment["PATH"] = f"{tool.parent}:{os.environ['PATH']}"
        for number in SIGNALS:
            started.unlink(missing_ok=True)
            process = self.start(part("good", GOOD))
            self.wait_until(lambda: started.exists() and started.read_text(encoding="utf-8"))
            self.assert_ends_by(process, number)
            self.assert_ended(int(started.read_text(encoding="utf-8")))
            self.assertEqual(self.result("campaign")["parts"], {})

    def test_facts_that_are_being_asked_for_are_given_up(self):
        self.add_program("bin/campaign_facts", "echo it runs >&2; touch started; exec sleep 1000")
        process = self.start(part("good", GOOD))
        self.wait_until((self.bundle / "started").exists)
        self.assert_ends_by(process, signal.SIGINT)

    def test_a_second_signal_changes_nothing(self):
        process = self.start(part("hung", HANGS_WITH_A_CHILD))
        self.wait_until(lambda: self.has_rows("hung"))
        process.send_signal(signal.SIGINT)
        self.assert_ends_by(process, signal.SIGINT)
        self.assert_ended(self.result("hung")["rows"][0]["child"])

    def test_a_signal_while_stacks_are_collected_ends_it_after_them(self):
        # Its handler of SIGQUIT says that the collection has begun.
        code = f"""
import pathlib, signal
signal.signal(signal.SIGQUIT, lambda *_: pathlib.Path({str(self.folder / "asked")!r}).touch())
{HANGS}"""
        process = self.start(part("hung", code, seconds=1), part("after", GOOD))
        self.wait_until((self.folder / "asked").exists)
        self.assert_ends_by(process, signal.SIGTERM)
        self.assertEqual(self.result("campaign")["parts"], {"hung": "hung"})

    def test_a_program_ends_with_a_campaign_that_is_killed(self):
        if campaign_case.STACKS is None:
            self.skipTest("libcampaign_stacks.so was not built")
        code = f"import json, os\nprint(json.dumps({{'child': os.getpid()}}), flush=True)\n{HANGS}"
        process = self.start(part("hung", code))
        self.wait_until(lambda: self.has_rows("hung"))
        process.kill()
        process.wait()
        pid = self.result("hung")["rows"][0]["child"]
        self.wait_until(lambda: not processes.is_running(pid))


class EndTest(unittest.TestCase):
    def test_a_process_of_another_user_is_given_up(self):
        with mock.patch.object(os, "kill", side_effect=PermissionError):
            processes.send(1, signal.SIGKILL)

    def test_what_was_printed_while_the_campaign_was_stopped_counts(self):
        """The clock jumps when it goes on, and a row waits in the pipe."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        rows = []

        def on_row(row):
            while not rows and not (folder / "two").exists():
                time.sleep(0.01)
            rows.append(row)

        with mock.patch.object(program_run.time, "monotonic", JumpingClock(rows)):
            ending = program_run.run(
                ["sh", "-c", "echo '{}'; sleep 0.2; echo '{}'; touch two; sleep 0.5; echo '{}'"],
                seconds=1000,
                silence=10,
                on_row=on_row,
                cwd=folder,
            )
        self.assertEqual((ending.outcome, len(rows)), ("done", 3))

    def test_a_process_that_cannot_be_killed_is_given_up(self):
        """As one that waits inside the kernel's driver."""
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        with (
            mock.patch.object(processes, "send"),
            mock.patch.object(processes, "KILL_SECONDS", 0.1),
        ):
            self.assertEqual(processes.end(child, set(), False), [child.pid])

    def test_children_of_others_are_left_alone(self):
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        with mock.patch.object(processes, "OTHERS", {child.pid}):
            done = subprocess.Popen(["true"], start_new_session=True)
            self.assertEqual(processes.end(done, set(), True), [])
        self.assertTrue(processes.is_running(child.pid))


if __name__ == "__main__":
    campaign_case.main()
