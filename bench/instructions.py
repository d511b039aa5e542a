#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of one operation of berth's and of its peers' under valgrind, and prints
them as report.py does times. The counts are the same on each run of the same binaries."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import report

# Valgrind cannot reserve the addresses of the devices that the simulator has by default.
SIMULATOR = "devices=1,memory=8GiB,poison=off,checks=off"
SECTION = re.compile(r"^desc: Trigger: Client Request: (\S+) (\d+)$", re.MULTILINE)
TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)


# What the program counts, each in a process of its own; "": the allocators.
PARTS = ("", "small_copies", "cuda_path", "beside_backend")


def count(program: Path, part: str, folder: str) -> str:
    """Leaves a file for each section in `folder`; what the program said."""
    environment = dict(os.environ)
    environment.update(BERTH_DRIVER="sim", BERTH_SIM=SIMULATOR)
    environment.setdefault("BERTH_BENCH_TRACES", str(Path(__file__).resolve().parent / "traces"))
    done = subprocess.run(
        ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no",
         f"--callgrind-out-file={folder}/callgrind", program, *([part] if part else [])],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(
            f"{program.name} ended with status {done.returncode}: {done.stderr.strip()}"
        )
    return done.stderr


def figures_of(dumps: Iterable[str]) -> dict[str, report.Figure]:
    """Of each section there is one dump with so many operations and one with twice as many: the
    difference is what the operations took, without what is around them."""
    counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for dump in dumps:
        if section := SECTION.search(dump):
            counts[section[1]].append((int(section[2]), int(TOTALS.search(dump)[1])))
    figures: dict[str, report.Figure] = {}
    for name, (few, many) in ((name, sorted(pair)) for name, pair in counts.items()):
        figure, peer, row = report.split_name(name)
        per_operation = (many[1] - few[1]) / (many[0] - few[0])
        shown = figures.setdefault(figure, report.Figure(figure, "instructions", "sim"))
        shown.values[peer][row] = per_operation
    return figures


def number_of_dump(path: Path) -> int:
    return int(path.suffix[1:] or 0)


def dumps_of(program: Path, part: str) -> tuple[list[str], str]:
    """The dumps in their order, and what the program said."""
    with tempfile.TemporaryDirectory() as folder:
        messages = count(program, part, folder)
        dumps = sorted(Path(folder).glob("callgrind.*"), key=number_of_dump)
        return [path.read_text() for path in dumps], messages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    report.add_output_arguments(parser)
    options = parser.parse_args()
    program = options.build / "bench" / "count_instructions"
    if not program.exists():
        raise SystemExit(f"no {program}; it is built where valgrind and its headers are")
    result = report.Report()
    result.device = "Simulated GPU"
    dumps: list[str] = []
    for part in PARTS:
        of_part, messages = dumps_of(program, part)
        result.add_messages(messages)
        dumps += of_part
    result.figures = figures_of(dumps)
    report.write(result, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
