#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much longer PyTorch takes on the simulated driver than on a driver that does nothing:

  run.py --build FOLDER --wheels FOLDER [--steps N] [--rounds N]

FOLDER of the build is that of `./run bench`; of the wheels, build/client-wheels-*/torch, which
`./run test clients` fetches. Times are processor time. Rounds are interleaved, and the fastest of
each counts, so that other load on the machine disturbs all alike.
"""

import argparse
import os
import pathlib
import subprocess
import sys

STEPS = pathlib.Path(__file__).with_name("torch_steps.py")
BYTES = (4096, 1 << 20)


def python(arguments, count):
    return [sys.executable, "-W", "ignore", str(STEPS), str(arguments.steps), str(count)]


def idle(arguments, count):
    build = arguments.build
    preloaded = [
        build / "bench" / "clients" / "libcuda.so.1",
        build / "src" / "sim" / "exports" / "libcudart.so.13",
    ]
    return ["env", f"LD_PRELOAD={':'.join(map(str, preloaded))}", *python(arguments, count)]


def simulated(*options):
    def command(arguments, count):
        berth = str(arguments.build / "src" / "tool" / "berth")
        return [berth, "sim", "--preload", *options, "--", *python(arguments, count)]

    return command


ROWS = {
    "a driver that does nothing": idle,
    "checks off": simulated("--checks", "off", "--call-sites", "off"),
    "checks, no call sites": simulated("--call-sites", "off"),
    "checks and call sites": simulated(),
}


def measure(arguments, row, count):
    done = subprocess.run(
        ROWS[row](arguments, count),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(arguments.wheels)},
    )
    if done.returncode != 0:
        sys.exit(f"{row}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--wheels", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    arguments.wheels = arguments.wheels.resolve()
    print(f"{'driver':30}{'bytes':>10}{'us a step':>12}{'ratio':>8}")
    for count in BYTES:
        best = dict.fromkeys(ROWS, float("inf"))
        for _ in range(arguments.rounds):
            for row in ROWS:
                best[row] = min(best[row], measure(arguments, row, count))
        for row, took in best.items():
            ratio = took / best["a driver that does nothing"]
            print(f"{row:30}{count:>10}{took:>12.1f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
