#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up the tests of one or more setups: the failed tests with the end of their output, then the
counts. They come last, where the reader of a long log looks first.

  summary.py BUILD LENGTH SETUP=EXIT_STATUS...

The tests of a setup ran in a folder of BUILD with --logbase SETUP --setup LENGTH, and ended with
EXIT_STATUS; a setup without tests counts as failed.
"""

import json
import pathlib
import sys

FINE = {"OK", "EXPECTEDFAIL"}
LINES_SHOWN = 60


def tests_of(build, name):
    logs = list(build.glob(f"*/meson-logs/{name}.json"))
    if not logs:
        return []
    (log,) = logs
    return [
        json.loads(line) for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
    ]


def end_of(test):
    printed = (test.get("stdout") or "") + (test.get("stderr") or "")
    return printed.splitlines()[-LINES_SHOWN:]


def main(build, length, *setups):
    passed, skipped, failures = 0, 0, []
    for setup, status in (word.split("=") for word in setups):
        tests = tests_of(pathlib.Path(build), f"{setup}-{length}")
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
