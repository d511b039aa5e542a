#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up what meson's tests found in one or more setups: last what failed, with the end of what it
printed, and the counts, so that whoever sees only the end of a long log sees why.

  summary.py BUILD SETUP=EXIT_STATUS...

A setup's tests ran in BUILD/SETUP and ended with EXIT_STATUS; if no test ran, it counts as failed.
"""

import json
import pathlib
import sys

FINE = {"OK", "EXPECTEDFAIL"}
LINES_SHOWN = 60


def tests_of(folder):
    logs = list((folder / "meson-logs").glob("testlog*.json"))  # of one run
    if not logs:
        return []
    (log,) = logs
    return [
        json.loads(line) for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
    ]


def end_of(test):
    printed = (test.get("stdout") or "") + (test.get("stderr") or "")
    return printed.splitlines()[-LINES_SHOWN:]


def main(build, *setups):
    passed, skipped, failures = 0, 0, []
    for setup, status in (word.split("=") for word in setups):
        tests = tests_of(pathlib.Path(build) / setup)
        failed = [test for test in tests if test["result"] not in FINE | {"SKIP"}]
        skipped += sum(test["result"] == "SKIP" for test in tests)
        passed += sum(test["result"] in FINE for test in tests)
        failures += [
            (f"{setup}, {test['name']}: {test['result']}", end_of(test)) for test in failed
        ]
        if not tests or (status != "0" and not failed):
            failures.append((f"{setup}: exit status {status}, {len(tests)} tests ran", []))
    for what, printed in failures:
        print(f"\n== failed: {what}", *printed, sep="\n  ")
    print(f"{passed} passed, {len(failures)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
