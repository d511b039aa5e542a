# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks in the bundle that measure hardware, one program after the other, and prints
each figure as a row, for a campaign."""

import json
import os
import pathlib
import sys
import time

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BUNDLE / "bench"))

import plan  # noqa: E402
import program_run  # noqa: E402
import report  # noqa: E402
import stacks  # noqa: E402

ARGUMENTS = ["--benchmark_format=json", "--benchmark_enable_random_interleaving=true"]
REPETITIONS = ["--benchmark_repetitions=5", "--benchmark_min_time=0.01"]
ONCE = ["--benchmark_repetitions=1", "--benchmark_min_time=0.0001"]
PROGRAM_SECONDS_MAX = 30
PROGRAM_SECONDS_MIN = 1  # one is not begun with less
# A program that hangs must leave time for the others, and some take longer than most.
SHARES_MAX = 4
BYTES_MAX = 64 << 20  # of what one prints
LAST = ("bench_replay",)  # it takes longest


def run(program, seconds, arguments):
    """The figures of one program, and its outcome."""
    lines = []
    left = BYTES_MAX

    def on_line(line):
        nonlocal left
        left -= len(line)
        if left > 0:
            lines.append(line)

    ending = program_run.run(
        [str(program), *arguments],
        seconds=seconds,
        on_line=on_line,
        on_hang=stacks.collect,
        cwd=BUNDLE,
    )
    found = report.Report()
    text = "\n".join(lines)
    if ending.outcome == "done" and text.strip():
        try:
            found.add(json.loads(text))
        except ValueError as error:
            found.failures.append(f"{program.name}: no JSON: {error}")
        found.drop_figures_without_ours()
    return ending, found


def programs():
    found = sorted((BUNDLE / "bench").glob("bench_*"))
    return sorted(found, key=lambda program: program.name in LAST)


def rows_of(found):
    for figure in found.figures.values():
        content = figure.to_json()
        rows = content["rows"] or [content]
        for row in rows:
            yield {
                "figure": "bench",
                "row": row["figure"],
                "berth": row["value"],
                "unit": row["unit"],
            } | row["peers"]
    for failure in found.failures:
        yield {
            "figure": "bench",
            "row": failure.partition(":")[0],
            "outcome": "failed",
            "text": failure,
        }


def main():
    end = time.monotonic() + plan.limit_seconds()
    arguments = ARGUMENTS + (ONCE if plan.is_quick() else REPETITIONS)
    os.environ.setdefault("BERTH_BENCH_TRACES", str(BUNDLE / "bench/traces"))
    failed = False
    found_programs = programs()
    if not found_programs:
        print(f"skipped: no benchmark in {BUNDLE / 'bench'}", file=sys.stderr)
        return program_run.SKIPPED
    if not any(pathlib.Path(os.environ["BERTH_BENCH_TRACES"]).glob("*")):
        print(f"no trace in {os.environ['BERTH_BENCH_TRACES']}", file=sys.stderr)
        failed = True
    for number, program in enumerate(found_programs):
        left = end - time.monotonic()
        share = SHARES_MAX * left / (len(found_programs) - number)
        seconds = min(left, share, PROGRAM_SECONDS_MAX)
        if seconds < PROGRAM_SECONDS_MIN:
            ending = program_run.Ending("cut short", 0.0, text="no time was left")
            print(
                json.dumps({"figure": "bench", "row": program.name, **ending.to_json()}), flush=True
            )
            continue
        ending, found = run(program, seconds, arguments)
        failed |= bool(found.failures)
        if ending.outcome not in ("done", "skipped"):
            failed = True
            print(
                json.dumps({"figure": "bench", "row": program.name} | ending.to_json()), flush=True
            )
        for row in rows_of(found):
            print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
