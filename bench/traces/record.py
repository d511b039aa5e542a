# SPDX-License-Identifier: Apache-2.0
"""Records the allocations of a PyTorch program as a trace that berth can replay.

The format is described in README.md beside this file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import random
import sys
import time
from pathlib import Path
from typing import NoReturn

from rows import Row, TraceError, longest_repeat, summarize, write_trace

SEED = 20
OUTPUT_SUFFIXES = (".csv", ".csv.gz")


class OneLineParser(argparse.ArgumentParser):
    """Reports the problem in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> OneLineParser:
    result = OneLineParser(prog="record.py", description=__doc__)
    result.add_argument("program", nargs="?", metavar="PROGRAM", help="see --list")
    result.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    result.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="*.csv or *.csv.gz; default: PROGRAM.csv.gz beside this script, "
        "or PROGRAM-cuda.csv.gz",
    )
    result.add_argument("--list", action="store_true", help="list the programs")
    result.add_argument(
        "--self-check",
        action="store_true",
        help="check the conversions, without PyTorch",
    )
    return result


def silence_libraries() -> None:
    """Turn off unrequested output of PyTorch and transformers, which read this on import."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # Programs are built from configurations; nothing may be downloaded.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def describe_iterations(rows: list[Row], iteration: str) -> str:
    count = summarize(rows).iteration_count
    first, last = longest_repeat(rows)
    repeat = f"{first} to {last} repeat exactly" if last > first else "no two repeat"
    return f"{count}, a snapshot row ends each {iteration}; {repeat}"


def versions() -> str:
    packages = ("torch", "torchvision", "transformers")
    found = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return ", ".join([f"python {platform.python_version()}", *found])


def record(name: str, device: str, output: Path) -> str:
    """Record one program and write its trace; returns a line about it."""
    import torch

    from backends import record_on_cpu, record_on_cuda
    from programs import PROGRAMS

    program = PROGRAMS[name]
    # Scratch memory of CPU kernels grows with threads; one keeps traces comparable.
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    random.seed(SEED)
    started_s = time.monotonic()
    backend = record_on_cuda if device == "cuda" else record_on_cpu
    rows, about_recording = backend(program)
    elapsed_s = time.monotonic() - started_s
    summary = summarize(rows)
    header = {
        "source": "recorded with bench/traces/record.py of berth",
        "license": "Apache-2.0",
        "program": f"{name}: {program.description}",
        "versions": versions(),
        **about_recording,
        "time": "microseconds since the first event",
        "iterations": describe_iterations(rows, program.iteration),
    }
    write_trace(output, header, rows)
    return (
        f"{output.name}: {summary.operation_count} operations, peak live "
        f"{summary.peak_live_bytes / 2**20:.0f} MiB, {output.stat().st_size} bytes, "
        f"{elapsed_s:.0f} s"
    )


def main(arguments: list[str]) -> int:
    options_parser = parser()
    options = options_parser.parse_args(arguments)
    if options.self_check:
        from self_check import run_all

        print(f"self-check: {run_all()} checks passed")
        return 0
    try:
        silence_libraries()
        import torch

        from programs import PROGRAMS
    except ImportError as error:
        options_parser.error(f"{error}; install requirements.txt beside this script")
    if options.list:
        for name, program in PROGRAMS.items():
            print(f"{name}: {program.description}")
        return 0
    if options.program not in PROGRAMS:
        accepted = ", ".join(PROGRAMS)
        options_parser.error(f"PROGRAM is {options.program}; accepted: {accepted}")
    if options.device == "cuda" and not torch.cuda.is_available():
        options_parser.error("PyTorch finds no CUDA device here; accepted: cpu")
    suffix = "-cuda.csv.gz" if options.device == "cuda" else ".csv.gz"
    output = options.output or Path(__file__).parent / (options.program + suffix)
    if not output.name.endswith(OUTPUT_SUFFIXES):
        accepted = " or ".join(OUTPUT_SUFFIXES)
        options_parser.error(f"--output is {output}; accepted: names in {accepted}")
    try:
        print(record(options.program, options.device, output))
    except (TraceError, OSError) as error:
        options_parser.exit(1, f"record.py: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
