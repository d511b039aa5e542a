# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of the bundle that measure hardware, one program after the other, and prints each figure as
a row, for a campaign."""
import json
import os
import pathlib
import sys
import time

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BUNDLE / "bench"))

import program_run  # noqa: E402
import report  # noqa: E402

# These have simulated devices of their own, whatever the driver is.
SIMULATED = {"bench_collectives", "bench_copies", "bench_crowded", "bench_devices", "bench_simulator_calls", "bench_waste"}
ARGUMENTS = ["--benchmark_format=json", "--benchmark_enable_random_interleaving=true"]
REPETITIONS = ["--benchmark_repetitions=5", "--benchmark_min_time=0.01"]
ONCE = ["--benchmark_repetitions=1", "--benchmark_min_time=0.0001"]
PROGRAM_SECONDS_MAX = 30


def seconds_left(end):
    return max(min(end - time.monotonic(), PROGRAM_SECONDS_MAX), 0.1)


def run(program, seconds, arguments):
    """The figures of one program, and how it ended."""
    lines = []
    ending = program_run.run([str(program), *arguments], seconds=seconds, on_line=lines.append, cwd=BUNDLE)
    found = report.Report()
    if ending.outcome == "done":
        found.add(json.loads("\n".join(lines)))
    return ending, found


def rows_of(found):
    for figure in found.figures.values():
        content = figure.to_json()
        rows = content["rows"] or [content]
        for row in rows:
            yield {"figure": "bench", "row": row["figure"], "berth": row["value"], "unit": row["unit"]} | row["peers"]
    for failure in found.failures:
        yield {"figure": "bench", "row": failure.partition(":")[0], "outcome": "failed", "text": failure}


def main():
    planned = float(os.environ.get("BERTH_CAMPAIGN_SECONDS", "60"))
    end = time.monotonic() + max(planned, 60.0)
    arguments = ARGUMENTS + (ONCE if planned <= 1 else REPETITIONS)
    os.environ.setdefault("BERTH_BENCH_TRACES", str(BUNDLE / "bench/traces"))
    failed = False
    for program in sorted((BUNDLE / "bench").glob("bench_*")):
        if program.name in SIMULATED:
            continue
        ending, found = run(program, seconds_left(end), arguments)
        if ending.outcome not in ("done", "skipped"):
            failed = True
            print(json.dumps({"figure": "bench", "row": program.name} | ending.to_json()), flush=True)
        for row in rows_of(found):
            print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
