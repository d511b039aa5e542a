#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an allocation of PyTorch costs with berth and with PyTorch's own allocator, in one table:
PyTorch's CUDA build on the simulated driver, one process for each allocator and trace.

  report.py --berth COMMAND --library LIBBERTH --packages FOLDER [--repetitions N] [TRACE...]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = [str(ROOT / f"bench/traces/{name}.csv.gz") for name in ("gpt2-train", "resnet50-train")]
ALLOCATORS = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "empty": {},  # a plug-in that does nothing
    "plugin": {},
    "full": {},
}
STREAMS = (1, 10)
PASSES = 15
NANOSECONDS = ("raw_ns", "python_ns")


def measure(options, allocator, trace, streams, folder):
    name = "native" if allocator == "expandable" else allocator
    words = [str(ROOT / "bench/torch/measure.py"), name, trace, str(streams), str(PASSES), folder]
    start = f"import runpy, site, sys; site.addsitedir({options.packages!r}); "
    start += f"sys.argv = {words!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [options.berth, "sim", "--preload", "--checks", "off", "--set", "poison=off"]
    done = subprocess.run(
        [*command, "--", sys.executable, "-B", "-W", "ignore", "-c", start],
        env=os.environ
        | {"PYTHONPATH": f"{options.packages}:{ROOT / 'python'}"}
        | {"BERTH_LIBRARY": options.library}
        | ALLOCATORS[allocator],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{allocator}: {done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def better(a, b):
    """The smaller of two measured times; the memory is the same each time."""
    return {key: min(a[key], b[key]) if key in NANOSECONDS else b[key] for key in b}


def table(trace, streams, found):
    name = pathlib.Path(trace).name.removesuffix(".gz").removesuffix(".csv")
    where = "its own streams" if streams == 0 else f"{streams} stream{'s' * (streams > 1)}"
    print(f"\n{name}, {found['native']['operations']} operations, {where}")
    rows = {
        "C++, ns": ("raw_ns", "{:.0f}"),
        "Python, ns": ("python_ns", "{:.0f}"),
        "peak reserved / peak live": ("reserved", "{:.3f}"),
        "the same, first pass": ("reserved_first", "{:.3f}"),
    }
    print(f"{'':26}" + "".join(f"{allocator:>12}" for allocator in found))
    for title, (key, form) in rows.items():
        if key in found["native"]:
            values = "".join(f"{form.format(of[key]):>12}" for of in found.values())
            print(f"{title:26}{values}")
    for allocator in ("empty", "plugin", "full"):
        ratios = [
            f"{key.removesuffix('_ns')} {found['native'][key] / found[allocator][key]:.2f} times"
            for key in NANOSECONDS
            if key in found["native"]
        ]
        print(f"native / {allocator}: {', '.join(ratios)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--berth", required=True, help="the command")
    parser.add_argument("--library", required=True, help="libberth.so")
    parser.add_argument("--packages", required=True, help="a folder with PyTorch")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--own-streams", action="store_true", help="those of the trace")
    parser.add_argument("traces", nargs="*", default=TRACES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"load: {os.getloadavg()[0]:.2f}")
        for trace in options.traces:
            for streams in (0,) if options.own_streams else STREAMS:
                found = {}
                for _ in range(options.repetitions):  # in turns, so that load falls on all alike
                    for allocator in ALLOCATORS:
                        now = measure(options, allocator, trace, streams, folder)
                        found[allocator] = better(found.get(allocator, now), now)
                table(trace, streams, found)
        print(f"\nload: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
