#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tests of the C ABI against its headers.

  check_functions.py --headers HEADER... --null-arguments FILE... --tests FILE...

Every function is called by some test; and every function with a status and something that can be
null is called by a test of null arguments. Prints `header:line: function: reason` for each that is
not; exit status 1 if there is one.
"""

import argparse
import pathlib
import re
import sys

DECLARATION = re.compile(r"BERTH_API\s+([\w\s]+?\*?)\s*\b(berth_\w+)\(([^)]*)\);")
NULLABLE = re.compile(r"\*|\bberth_(?:stream|event)\b")


def functions(header):
    for match in DECLARATION.finditer(header):
        line = header.count("\n", 0, match.start()) + 1
        returned, name, parameters = match.groups()
        yield line, name, returned.strip() == "berth_status" and bool(NULLABLE.search(parameters))


def calls(text, name):
    return re.search(rf"\b{name}\s*\(", text) is not None


def problems_of(header, tests, null_arguments):
    """Pairs of a line and what is wrong there."""
    declared = list(functions(header))
    if len(declared) != len(re.findall(r"^BERTH_API\b", header, re.MULTILINE)):
        yield 1, "a declaration is not understood"
    for line, name, can_be_null in declared:
        if not calls(tests, name):
            yield line, f"{name}: no test calls it"
        if can_be_null and not calls(null_arguments, name):
            yield line, f"{name}: no test of null arguments"


def read(path):
    return path.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headers", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--null-arguments", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--tests", type=pathlib.Path, nargs="+", required=True)
    options = parser.parse_args()
    tests = "".join(map(read, options.tests))
    null_arguments = "".join(map(read, options.null_arguments))
    found = False
    for path in options.headers:
        for line, reason in problems_of(read(path), tests, null_arguments):
            print(f"{path.name}:{line}: {reason}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
