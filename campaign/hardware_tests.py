# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of tests/list that need no simulator, and prints how each ended, for a campaign.

  hardware_tests.py [--skip NAME]...
"""
import argparse
import json
import pathlib
import shlex
import sys

import program_run

SECONDS_MAX = 60
BUNDLE = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--skip", metavar="NAME", action="append", default=[])
    skipped = parser.parse_args().skip
    failed = False
    for line in (BUNDLE / "tests/list").read_text(encoding="utf-8").splitlines():
        name, _, command = line.partition("\t")
        if name in skipped:
            continue
        ending = program_run.run(shlex.split(command), seconds=SECONDS_MAX, cwd=BUNDLE)
        print(json.dumps({"figure": "tests", "row": name} | ending.to_json()), flush=True)
        failed |= ending.outcome not in ("done", "skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
