# SPDX-License-Identifier: Apache-2.0
"""What the tests of `berth sim` share. Each is run as

  SCRIPT BERTH LIBCUDA CASES [unittest's arguments]

where CASES is the program of cases.c.
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))

from berth_command import BERTH, LIBCUDA, CommandTest, berth, environment  # noqa: E402

CASES = os.path.abspath(sys.argv.pop(1))
FOLDER = os.path.dirname(LIBCUDA)
__all__ = ["BERTH", "CASES", "FOLDER", "LIBCUDA", "SimTest", "berth", "environment", "masked"]


def masked(text):
    """Without what differs from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


class SimTest(CommandTest):
    def sim(self, *options, program=None, env=None, **more):
        """Runs `berth sim OPTIONS -- PROGRAM`, with all its findings in .report."""
        report = os.path.join(self.folder, "report.json")
        arguments = ["sim", "--json", report, *options, "--", *(program or [])]
        outcome = berth(*arguments, env={"BERTH_DRIVER": None} | (env or {}), **more)
        outcome.report = None
        if os.path.exists(report) and os.path.getsize(report) != 0:
            with open(report, encoding="utf-8") as file:
                outcome.report = json.load(file)
        return outcome

    def cases(self, *names, options=(), **more):
        return self.sim(*options, program=[CASES, *names], **more)

    def assert_findings(self, outcome, *kinds):
        """With exactly these kinds of findings, in any order, and the exit code that goes with
        them."""
        self.assertIsNotNone(outcome.report, outcome.story)
        found = sorted(finding["kind"] for finding in outcome.report["findings"])
        self.assertEqual(found, sorted(kinds), outcome.story)
        self.assertEqual(outcome.exit_code, 1 if kinds else 0, outcome.story)
        return outcome.report["findings"]
