#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures berth on this machine's GPU, part by part, and writes what it finds as JSON.

Each part has a time limit, and a result file that is written while it runs, so that an interrupted campaign
is worth something. A part that fails, crashes or hangs is noted, and the next one begins.
"""
import argparse
import json
import os
import pathlib
import platform
import resource
import signal
import sys
import tempfile
import time

import kernels
import program_run
import results

HERE = pathlib.Path(__file__).resolve().parent
MINUTES = 8.0
AFTERWARDS_SECONDS = 5  # for what follows the last part
# A program may be told to go on where it crashed or hung: so often.
RESUMED_MAX = 20
# A program plans for less than it is given, so that it ends by itself.
SHARE_PLANNED = 0.8
QUICK_SECONDS = 1.0
# Where the figures mean nothing, a slow machine has so many times as long.
QUICK_PATIENCE = 10


def read_parts(path):
    return json.loads(path.read_text(encoding="utf-8"))


def chosen(parts, only, skipped):
    names = [part["name"] for part in parts]
    unknown = [name for name in [*only, *skipped] if name not in names]
    if unknown:
        sys.exit(f"campaign has no part {', '.join(unknown)}; accepted: {', '.join(names)}")
    return [part for part in parts if (not only or part["name"] in only) and part["name"] not in skipped]


def share_of(parts, seconds):
    """What each part gets of the time that it wants: less than all where they would take longer together."""
    total = sum(part["seconds"] for part in parts)
    return min(1.0, max(seconds, 1.0) / total) if total else 1.0


def environment_of(bundle, seconds, code):
    """For a program of the bundle, which plans for so many seconds. What else is set for berth is not for it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "LD_PRELOAD"))}
    kept["BERTH_DRIVER"] = os.environ.get("BERTH_DRIVER", "cuda")
    if "BERTH_SIM" in os.environ and kept["BERTH_DRIVER"] == "sim":
        kept["BERTH_SIM"] = os.environ["BERTH_SIM"]
    kept["BERTH_CAMPAIGN_SECONDS"] = f"{seconds:.1f}"
    if code is not None:
        kept["BERTH_CAMPAIGN_KERNELS"] = str(code)
    kept["PYTHONFAULTHANDLER"] = "1"
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    stacks = bundle / "lib/libcampaign_stacks.so"
    if stacks.is_file():
        kept["LD_PRELOAD"] = str(stacks)
    return kept


def run_program(program, share, deadline, result, bundle, code, quick):
    """All of it, in its share of the time that it wants. Where it may be resumed, it goes on behind the case that it
    crashed or hung in."""
    command = [sys.executable if word == "python3" else word for word in program["command"]]
    begun = []  # cases, in order
    patience = QUICK_PATIENCE if quick else 1
    silence = patience * program["silence"] if "silence" in program else None

    def on_row(row):
        if "begin" in row:
            begun.append(row["begin"])
        else:
            result.add_row(program["name"], row)

    for _ in range(RESUMED_MAX):
        seconds = min(patience * share * program.get("seconds", float("inf")), deadline - time.monotonic())
        if seconds <= 0:
            result.add_program(program["name"], program_run.Ending("cut short", 0.0, text="no time was left"))
            return
        known = len(begun)
        ending = program_run.run(
            command + ([program["resume"].format(next=known + 1)] if known else []),
            seconds=seconds, on_row=on_row, on_turn=result.save_in_time, cwd=bundle, silence=silence,
            environment=environment_of(bundle, QUICK_SECONDS if quick else seconds * SHARE_PLANNED, code),
        )  # fmt: skip
        result.add_program(program["name"], ending)
        if ending.outcome not in ("crashed", "hung") or "resume" not in program or len(begun) == known:
            return
        result.add_row(program["name"], {"case": begun[-1], "outcome": ending.outcome})


def free_bytes(bundle, code):
    """Of the device; None where no program can tell."""
    found = []
    program_run.run(
        ["bin/campaign_facts", "--memory"], seconds=30, on_row=found.append, cwd=bundle,
        environment=environment_of(bundle, 30, code),
    )  # fmt: skip
    return next((row["bytes_free"] for row in found if "bytes_free" in row), None)


def run_campaign(parts, minutes, out, bundle, quick):
    end = time.monotonic() + 60 * minutes - AFTERWARDS_SECONDS
    with tempfile.TemporaryDirectory() as scratch:
        compiled = kernels.compile_for(bundle / "kernels/kernels.cu", pathlib.Path(scratch))
        summary = {
            "bundle": json.loads((bundle / "bundle.json").read_text(encoding="utf-8")),
            "machine": {"host": platform.platform(), "python": platform.python_version(), "cpus": os.cpu_count()},
            "driver": os.environ.get("BERTH_DRIVER", "cuda"),
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "kernels": compiled.said,
            "bytes_free_before": free_bytes(bundle, compiled.path),
            "parts": {},
        }  # fmt: skip
        results.write(out / "campaign.json", summary)
        for number, part in enumerate(parts, 1):
            name = part["name"]
            share = 1.0 if quick else share_of(parts[number - 1 :], end - time.monotonic())
            limit = part["seconds"] * share
            print(f"{number} of {len(parts)}: {name}, {limit:.0f} s at most", flush=True)
            result = results.PartResult(out / f"{name}.json", name)
            deadline = time.monotonic() + limit * (QUICK_PATIENCE if quick else 1)
            for program in part["programs"]:
                run_program(program, share, deadline, result, bundle, compiled.path, quick)
            summary["parts"][name] = result.finish()
            print(f"   {summary['parts'][name]} in {result.content['seconds']:.1f} s", flush=True)
            results.write(out / "campaign.json", summary)
        summary["bytes_free_after"] = free_bytes(bundle, compiled.path)
        summary["ended"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        results.write(out / "campaign.json", summary)
    return summary


def parse_options():
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--out", metavar="FOLDER", type=pathlib.Path, help="where the results go; made if need be")
    parser.add_argument("--list", action="store_true", help="print the parts, and run none")
    parser.add_argument("--only", metavar="PART", action="append", default=[], help="run this part; may be repeated")
    parser.add_argument("--skip", metavar="PART", action="append", default=[], help="leave this part out; likewise")
    parser.add_argument("--minutes", metavar="M", type=float, default=MINUTES,
                        help=f"for all parts together; default {MINUTES:.0f}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="see that everything runs; the figures mean nothing")
    parser.add_argument("--parts", metavar="FILE", type=pathlib.Path, default=HERE / "parts.json",
                        help=argparse.SUPPRESS)  # fmt: skip
    parser.add_argument("--bundle", metavar="FOLDER", type=pathlib.Path, default=HERE.parent, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.list and options.out is None:
        parser.error("--out FOLDER is missing: where the results go")
    if not 0 < options.minutes < float("inf"):
        parser.error(f"--minutes is {options.minutes}; accepted: more than 0")
    return options


def main():
    options = parse_options()
    parts = chosen(read_parts(options.parts), options.only, options.skip)
    if options.list:
        share = share_of(parts, 60 * options.minutes)
        for part in parts:
            print(f"{part['name']:12} {share * part['seconds']:4.0f} s  {part['says']}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of programs that crash; a core would be gigabytes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends what is running
    summary = run_campaign(parts, options.minutes, options.out.resolve(), options.bundle.resolve(), options.quick)
    ended_well = all(outcome in ("done", "skipped") for outcome in summary["parts"].values())
    return 0 if ended_well else 1


if __name__ == "__main__":
    sys.exit(main())
