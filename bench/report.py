#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs berth's benchmarks and joins each figure with its peers into one table.

A binary interleaves the repetitions of its benchmarks at random, and each value is the median of
its repetitions, because machines are noisy: what disturbs one peer then disturbs the others too.
Compare values of one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

OURS = "berth"
LEFT_OUT = "left out"  # label of a benchmark without a value
SKIPPED = 77  # exit status of a binary, and of this script, that cannot run here
NAME_SUFFIX = re.compile(r"/(real_time|(threads|iterations|repeats):\d+)$")
# Units other than time, by the counter that has the value.
UNITS = {
    "bytes": "B",
    "calls": "calls",
    "ns": "ns",
    "percent": "%",
    "ratio": "ratio",
    "requests_refused": "requests",
}
# Figures whose mean says little: a few bad rows hide many good ones, or the reverse.
UNITS_WITH_SPREAD = {"%", "ratio"}


@dataclass
class Figure:
    """Values by peer and row. A figure without rows has one, named ''."""

    name: str
    unit: str
    driver: str
    values: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def rows(self) -> list[str]:
        return list(self.values.get(OURS, {}))

    def mean(self, peer: str) -> float | None:
        """The mean over all rows; None if the peer lacks one of them. A peer without rows has one
        value for all rows."""
        of_row = self.values.get(peer, {})
        if set(of_row) == {""}:
            return of_row[""]
        if not self.rows or any(row not in of_row for row in self.rows):
            return None
        return statistics.fmean(of_row[row] for row in self.rows)

    def row_figures(self) -> list[Figure]:
        if self.rows == [""]:
            return []
        return [
            Figure(f"{self.name}/{row}", self.unit, self.driver,
                   {peer: {"": rows[row]} for peer, rows in self.values.items() if row in rows})
            for row in self.rows
        ]  # fmt: skip

    def spread_figures(self) -> list[Figure]:
        """Median and worst of the rows, if their unit has them; the lowest value is best."""
        if self.unit not in UNITS_WITH_SPREAD or len(self.rows) < 2:
            return []
        whole = [peer for peer in self.values if self.mean(peer) is not None]
        return [
            Figure(f"{self.name}:{name}", self.unit, self.driver,
                   {peer: {"": of([self.values[peer][row] for row in self.rows])}
                     for peer in whole})
            for name, of in (("median", statistics.median), ("worst", max))
        ]  # fmt: skip

    def to_json(self) -> dict:
        means = {peer: self.mean(peer) for peer in self.values}
        return {
            "figure": self.name,
            "value": means.pop(OURS),
            "unit": self.unit,
            "peers": {peer: mean for peer, mean in means.items() if mean is not None},
            "driver": self.driver,
            "spread": [figure.to_json() for figure in self.spread_figures()],
            "rows": [figure.to_json() for figure in self.row_figures()],
        }


class Report:
    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.left_out: list[str] = []
        self.failures: list[str] = []
        self.device = ""

    def add(self, output: dict) -> None:
        """The JSON output of one binary."""
        context = output["context"]
        self.device = context["device"]
        repetitions: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
        # In the order of registration, which interleaved runs do not have.
        for run in sorted(output["benchmarks"], key=lambda run: run["family_index"]):
            if run.get("error_occurred"):
                self.add_failure(run)
            elif run["run_type"] == "iteration" and run.get("label") != LEFT_OUT:
                figure, peer, row = split_name(run["run_name"])
                unit, value = value_of(run)
                repetitions[figure, unit, peer, row].append(value)
        for (name, unit, peer, row), values in repetitions.items():
            figure = self.figures.setdefault(name, Figure(name, unit, context["driver"]))
            figure.values[peer][row] = statistics.median(values)

    def add_failure(self, run: dict) -> None:
        """The first line of an error, once for all repetitions; some errors append a call site."""
        failure = f"{run['run_name']}: {run['error_message'].splitlines()[0]}"
        if failure not in self.failures:
            self.failures.append(failure)

    def add_messages(self, text: str) -> None:
        """The lines of one binary on standard error about left-out figures, each once."""
        lines = [line for line in text.splitlines() if line.startswith("left out: ")]
        self.left_out += [line for line in lines if line not in self.left_out]

    def drop_figures_without_ours(self) -> None:
        for name in [name for name, figure in self.figures.items() if not figure.rows]:
            del self.figures[name]
            self.failures.append(f"{name}: no value of {OURS}'s, which the peers stand beside")


def split_name(name: str) -> tuple[str, str, str]:
    """Figure, peer and row of a benchmark's name."""
    while NAME_SUFFIX.search(name):
        name = NAME_SUFFIX.sub("", name)
    figure, peer, row = [*name.split("/", 2), ""][:3]
    return figure, peer, row


def value_of(run: dict) -> tuple[str, float]:
    for counter, unit in UNITS.items():
        if counter in run:
            return unit, run[counter]
    return "ns", 1e9 / run["items_per_second"]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def comparison(value: float, peer: float | None) -> list[str]:
    if peer is None:
        return ["-", "-"]
    return [number(peer), f"{number(peer / value)}x" if value > 0 else "-"]


def table(figures: list[Figure]) -> str:
    peers = list(dict.fromkeys(peer for figure in figures for peer in figure.values))
    peers.remove(OURS)
    heads = [cell for peer in peers for cell in (peer, "faster")]
    lines = [["figure", OURS, "unit", *heads, "on"]]
    for figure in figures:
        ours = figure.mean(OURS)
        cells = [cell for peer in peers for cell in comparison(ours, figure.mean(peer))]
        lines.append([figure.name, number(ours), figure.unit, *cells, figure.driver])
    widths = [max(map(len, column)) for column in zip(*lines)]
    left_aligned = {0, 2, len(widths) - 1}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left_aligned else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def benchmark_arguments(options: argparse.Namespace) -> list[str]:
    repetitions, seconds = (1, 0.0001) if options.quick else (options.repetitions, options.min_time)
    return [
        "--benchmark_format=json",
        f"--benchmark_filter={options.filter}",
        "--benchmark_enable_random_interleaving=true",
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={seconds}",
    ]


def run_binary(binary: Path, arguments: list[str], report: Report) -> None:
    environment = dict(os.environ)
    environment.setdefault("BERTH_BENCH_TRACES", str(Path(__file__).resolve().parent / "traces"))
    done = subprocess.run(
        [binary, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == SKIPPED:
        print(done.stderr.strip())
        raise SystemExit(SKIPPED)
    if done.returncode != 0:
        raise RuntimeError(f"ended with status {done.returncode}: {done.stderr.strip()}")
    report.add_messages(done.stderr)
    if done.stdout.strip():  # nothing where the filter matches nothing
        report.add(json.loads(done.stdout))


def run_all(options: argparse.Namespace) -> Report:
    folder = options.build / "bench"
    binaries = [path for path in sorted(folder.glob("bench_*")) if path.is_file()]
    binaries = [path for path in binaries if os.access(path, os.X_OK)]
    if not binaries:
        raise SystemExit(f"no benchmarks in {folder}; build with -Dbenchmarks=enabled")
    report = Report()
    for binary in binaries:
        print(f"{binary.name} ...", file=sys.stderr)
        try:
            run_binary(binary, benchmark_arguments(options), report)
        except (RuntimeError, ValueError) as error:
            report.failures.append(f"{binary.name}: {error}")
    report.drop_figures_without_ours()
    return report


def show(report: Report, with_rows: bool) -> None:
    figures = []
    for figure in report.figures.values():
        figures += [figure, *figure.spread_figures(), *(figure.row_figures() if with_rows else [])]
    if figures:
        print(table(figures))
        print(f"on {report.device}; a figure with rows is their mean; faster: peer / {OURS}")
    for line in report.left_out:
        print(line)
    for failure in report.failures:
        print(f"failed: {failure}", file=sys.stderr)


def write(report: Report, options: argparse.Namespace) -> None:
    if options.json:
        figures = [figure.to_json() for figure in report.figures.values()]
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    show(report, options.rows)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--build", type=Path, required=True, metavar="DIR", help="build folder of the benchmarks")
    add("--rows", action="store_true", help="show each row below its figure")
    add("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add_output_arguments(parser)
    add = parser.add_argument
    add("--filter", default=".", metavar="REGEX", help="only benchmarks whose name matches")
    add("--repetitions", type=int, default=9, metavar="N", help="of each benchmark (default 9)")
    add("--min-time", type=float, default=0.02, metavar="S", help="of a repetition (default 0.02)")
    add("--quick", action="store_true", help="see that everything runs; the times mean nothing")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    report = run_all(options)
    if not (report.figures or report.failures or report.left_out):
        raise SystemExit(f"no benchmark's name matches {options.filter!r}")
    write(report, options)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
