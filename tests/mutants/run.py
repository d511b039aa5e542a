#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: plants each bug of mutants.toml in a copy of the sources, one at a time in each
copy, and prints which test detects it. Exit status 1 if a bug is not detected within a minute of
testing.

  run.py --root CHECKOUT --folder FOLDER --toolkit-include DIR [--only PATTERN] [--copies N]
         [--list] [--json FILE]
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import itertools
import json
import os
import pathlib
import queue
import sys
import textwrap
import time

import planted
import workshop

SECONDS_MAX = 60
# A test that takes so many times as long as without a bug, and as long as that, does not end.
HANGS_FACTOR = 5
HANGS_SECONDS_MIN = 10
TOO_LATE = f"NOT WITHIN {SECONDS_MAX} s"
# What is asked where those that should have seen a bug have not.
SUITES = ("memory", "model", "fault", "base")
NAME_COLUMNS = 35
CAUGHT_COLUMNS = 36
# Where no run has said yet: on two processors.
SECONDS_EACH = 10.0


@dataclasses.dataclass(frozen=True)
class Result:
    name: str
    suite: str | None  # None: nobody saw it
    test_case: str
    test_seconds: float
    build_seconds: float


def row(name, caught, seconds):
    """Lines of 80 columns at most."""
    columns = itertools.zip_longest(
        textwrap.wrap(name, NAME_COLUMNS),
        textwrap.wrap(caught, CAUGHT_COLUMNS),
        [seconds],
        fillvalue="",
    )
    lines = (f"{a:{NAME_COLUMNS}}  {b:{CAUGHT_COLUMNS}} {c:>6}".rstrip() for a, b, c in columns)
    return "\n".join(lines)


def suite_of(step):
    return step.partition("/")[0]


def catch(shop, mutant, sound):
    """Asks one suite after the other, the likeliest first. `sound`: how long each takes without
    bugs."""
    build_seconds = 0.0
    test_seconds = 0.0
    with shop.planted(mutant):
        for step in dict.fromkeys((*mutant.seen_by, *SUITES)):
            begin = time.monotonic()
            try:
                shop.make([step])
            except workshop.DoesNotBuild as problem:
                said = f"DOES NOT BUILD: {problem}"
                return Result(mutant.name, None, said, test_seconds, build_seconds)
            build_seconds += time.monotonic() - begin
            seconds_left = SECONDS_MAX - test_seconds
            hangs_seconds = max(HANGS_FACTOR * sound[step], HANGS_SECONDS_MIN)
            outcome = shop.test(step, min(seconds_left, hangs_seconds))
            test_seconds += outcome.seconds
            hangs = not outcome.ended and hangs_seconds < seconds_left
            failed = f"{step} does not end" if hangs else outcome.failed
            if failed is not None:
                return Result(mutant.name, suite_of(step), failed, test_seconds, build_seconds)
            if test_seconds >= SECONDS_MAX:
                return Result(mutant.name, None, TOO_LATE, test_seconds, build_seconds)
    return Result(mutant.name, None, "NOT SEEN", test_seconds, build_seconds)


def require_sound(shop, steps):
    """What fails already catches nothing. How long each step takes."""
    shop.make(steps)
    seconds = {}
    for step in steps:
        outcome = shop.test(step, 600)
        if outcome.failed is not None or not outcome.ended:
            sys.exit(
                f"the tests fail without any mutant: {step}: {outcome.failed or 'does not end'}"
            )
        seconds[step] = outcome.seconds
    return seconds


@contextlib.contextmanager
def lent(shops):
    """A copy that no other thread uses meanwhile."""
    shop = shops.get()
    try:
        yield shop
    finally:
        shops.put(shop)


def run(copies, mutants, seconds_file):
    """Prints the table, and returns the results. Each of `copies` tests one mutant at a time."""
    steps = list(dict.fromkeys((*SUITES, *(step for each in mutants for step in each.seen_by))))
    shops = queue.SimpleQueue()

    def prepare(shop):
        shop.prepare()
        seconds = require_sound(shop, steps)
        shops.put(shop)
        return seconds

    def catch_in_a_copy(mutant):
        with lent(shops) as shop:
            return catch(shop, mutant, sound)

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as threads:
        print("building the copies, and testing them without mutants", flush=True)
        measured = list(threads.map(prepare, copies))
        sound = {step: max(seconds[step] for seconds in measured) for step in steps}
        known = json.loads(seconds_file.read_text()) if seconds_file.is_file() else {}
        estimate = sum(known.get(mutant.name, SECONDS_EACH) for mutant in mutants) / len(copies)
        print(f"{len(mutants)} mutants take about {estimate / 60:.1f} minutes\n")
        print(row("planted bug", "caught by", "s"))
        print("-" * 80, flush=True)
        results = []
        for mutant, result in zip(mutants, threads.map(catch_in_a_copy, mutants)):
            caught = f"{result.suite}: {result.test_case}" if result.suite else result.test_case
            print(row(mutant.name, caught, f"{result.test_seconds:.1f}"), flush=True)
            results.append(result)
            known[mutant.name] = result.test_seconds + result.build_seconds
            seconds_file.write_text(json.dumps(known))
    return results


def is_meant(mutant, pattern):
    return any(fnmatch.fnmatch(text, pattern) for text in (mutant.name, mutant.file))


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def parse_options():
    parser = argparse.ArgumentParser(prog="./run mutants", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--root", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--toolkit-include", required=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", metavar="PATTERN", action="append", help="those with this in name or file"
    )
    parser.add_argument(
        "--copies",
        metavar="N",
        type=positive,
        default=os.cpu_count(),
        help="copies of the sources, each with one bug at a time; default: one for each processor",
    )
    parser.add_argument("--list", action="store_true", help="print their names, and plant none")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the table, too")
    return parser.parse_args()


def is_header(file):
    return file.endswith((".h", ".hpp"))


def make_copies(options, jumbo, count):
    """`count` copies. Those in which headers change have folders of their own."""
    jobs = max(os.cpu_count() // options.copies, 1)
    return [
        workshop.Workshop(
            options.root,
            options.folder / f"{i}{'-jumbo' * jumbo}",
            options.toolkit_include,
            jobs,
            jumbo,
        )
        for i in range(count)
    ]


def main():
    options = parse_options()
    mutants = planted.read()
    problems = list(planted.problems(mutants, options.root))
    if problems:
        sys.exit("\n".join(problems))
    patterns = [f"*{pattern}*" for pattern in options.only or [""]]
    mutants = [each for each in mutants if any(is_meant(each, pattern) for pattern in patterns)]
    if not mutants:
        sys.exit(f"no mutant has {' or '.join(options.only)} in its name or file")
    if options.list:
        print("\n".join(f"{each.file}: {each.name}" for each in mutants))
        return 0
    results = []
    for in_header in (False, True):
        some = [each for each in mutants if is_header(each.file) == in_header]
        if some:
            copies = make_copies(options, in_header, min(options.copies, len(some)))
            results += run(copies, some, options.folder / "seconds.json")
    if options.json:
        rows = [dataclasses.asdict(result) for result in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    caught = sum(result.suite is not None for result in results)
    print(f"\n{caught} of {len(results)} caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
