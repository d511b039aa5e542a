# SPDX-License-Identifier: Apache-2.0
"""The arguments of a campaign, its bundle, and the folder for its results: all that can be wrong
before anything runs, which ends the campaign with a message and exit status 2."""

import argparse
import json
import os
import pathlib
import re
import sys

import results

HERE = pathlib.Path(__file__).resolve().parent
MINUTES = 8.0
MINUTES_MIN = 0.2
MISUSED = 2


def parse(description):
    parser = argparse.ArgumentParser(prog="campaign", description=description)
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=pathlib.Path,
        help="where the results go; created if it does not exist",
    )
    parser.add_argument("--list", action="store_true", help="print the parts, and run none")
    parser.add_argument(
        "--only",
        metavar="PART",
        action="append",
        default=[],
        help="run this part, or several with commas; may be repeated",
    )
    parser.add_argument(
        "--skip", metavar="PART", action="append", default=[], help="leave parts out, likewise"
    )
    parser.add_argument(
        "--minutes",
        metavar="M",
        type=float,
        default=MINUTES,
        help=f"for all parts together; default and most {MINUTES:.0f}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="see that everything runs; the figures mean nothing"
    )
    parser.add_argument(
        "--parts",
        metavar="FILE",
        type=pathlib.Path,
        default=HERE / "parts.json",
        help=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--bundle", metavar="FOLDER", type=pathlib.Path, default=HERE.parent, help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if not options.list and options.out is None:
        parser.error("--out FOLDER is missing: where the results go")
    if not MINUTES_MIN <= options.minutes <= MINUTES:
        parser.error(f"--minutes is {options.minutes:g}; accepted: {MINUTES_MIN} to {MINUTES:.0f}")
    return options


def names_in(options):
    return [name.strip() for option in options for name in option.split(",")]


def chosen(options):
    """The parts that will run."""
    try:
        parts = json.loads(options.parts.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        misused(f"{options.parts}: {error}: make the bundle again")
    only, skipped = names_in(options.only), names_in(options.skip)
    names = [part["name"] for part in parts]
    unknown = [name for name in [*only, *skipped] if name not in names]
    if unknown:
        misused(f"there is no part {', '.join(map(repr, unknown))}; accepted: {', '.join(names)}")
    left = [
        part for part in parts if (not only or part["name"] in only) and part["name"] not in skipped
    ]
    return left or misused("--only and --skip leave no part")


def read_about(path):
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if re.fullmatch(r"\d+(\.\d+)*", about.get("glibc", "0")):
            return about
        problem = "its glibc is no version"
    except OSError as error:
        problem = error.strerror
    except (ValueError, AttributeError, TypeError):
        problem = "no JSON as a bundle has it"
    return misused(f"{path}: {problem}: make the bundle again")


def check_glibc(needed):
    """Every program of the bundle needs this version of the C library."""
    try:
        here = os.confstr("CS_GNU_LIBC_VERSION").removeprefix("glibc ")
    except (AttributeError, ValueError):
        misused(f"this machine's C library is not glibc; the bundle needs glibc {needed} or newer")
    if [int(part) for part in here.split(".")] < [int(part) for part in needed.split(".")]:
        misused(
            f"this machine has glibc {here}, and the bundle needs {needed} or newer: "
            f"make the bundle on a machine with glibc {here} or older"
        )


def prepare(out):
    """The folder for the results: a new or an empty one, in which files can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        earlier = sorted(path.name for path in out.glob("*.json"))
        if earlier:
            misused(f"{out} has results of an earlier campaign, {earlier[0]}: name a new folder")
        results.write_json(out / "campaign.json", {"parts": {}})
    except OSError as error:
        misused(f"results cannot be written into {out}: {error.strerror}")


def misused(text):
    print(f"campaign: {text}", file=sys.stderr)
    sys.exit(MISUSED)
