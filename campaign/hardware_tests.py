# SPDX-License-Identifier: Apache-2.0
"""Runs the tests in tests/list, which need no simulator, and prints how each ended, for a campaign.

hardware_tests.py [--skip NAME | --only NAME]...
"""

import argparse
import json
import os
import pathlib
import shlex
import sys
import time

import plan
import program_run
import stacks

SECONDS_MAX = 60
SHARES_MAX = 2  # one that hangs leaves time for the others
SECONDS_MIN = 1  # a test is not begun with less
BUNDLE = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--skip", metavar="NAME", action="append", default=[])
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    options = parser.parse_args()
    end = time.monotonic() + plan.limit_seconds()
    lines = (BUNDLE / "tests/list").read_text(encoding="utf-8").splitlines()
    wanted = [
        (name, command)
        for name, _, command in (line.partition("\t") for line in lines)
        if name not in options.skip and name in (options.only or [name])
    ]
    failed = not wanted
    if failed:
        print(f"no such test in {BUNDLE / 'tests/list'}", file=sys.stderr)
    for number, (name, command) in enumerate(wanted):
        left = end - time.monotonic()
        seconds = min(SECONDS_MAX, left, SHARES_MAX * left / (len(wanted) - number))
        if seconds < SECONDS_MIN:
            ending = program_run.Ending("cut short", 0.0, text="no time was left")
        else:
            # A test leaves out its optional cases in time.
            environment = {**os.environ, "BERTH_TEST_SECONDS_MAX": f"{seconds * 0.8:.0f}"}
            ending = program_run.run(
                shlex.split(command),
                seconds=seconds,
                cwd=BUNDLE,
                environment=environment,
                on_hang=stacks.collect,
            )
        print(json.dumps({"figure": "tests", "row": name} | ending.to_json()), flush=True)
        failed |= ending.outcome not in ("done", "skipped", "cut short")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
