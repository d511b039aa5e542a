#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with what is to be tried on a machine with a GPU: the campaign and its programs,
the tests of suite `hardware`, the benchmarks, the command, and every library of theirs that is not
the C library's or linked statically.

  bundle.py --source CHECKOUT --build BUILD_FOLDER FOLDER

The build must have -Dportable=true, so that programs need few, and find them in ../lib.
"""

import argparse
import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

SUITE = "berth:hardware"
SCRIPTS = (
    "arguments.py", "bench_figures.py", "campaign.py", "cupy_arrays.py", "hardware_tests.py",
    "kernels.py", "parts.json", "plan.py", "processes.py", "program_run.py", "results.py",
    "stacks.py",
    "torch_copies.py", "torch_here.py", "torch_replays.py", "torch_training.py",
)  # fmt: skip
COMMAND = "campaign"
# Libraries that other programs load, if they exist.
LOADED = ("campaign/libcampaign_stacks.so", "adapters/libberth_torch.so")
# These have their own simulated devices, whatever the driver.
SIMULATED = {
    "bench_collectives",
    "bench_copies",
    "bench_crowded",
    "bench_devices",
    "bench_simulator_calls",
    "bench_waste",
}
# A machine with a GPU is often far away.
BYTES_MAX = 40 << 20
# The libraries of the other machine's own C library.
C_LIBRARY = re.compile(r"(ld-linux-x86-64|libc|libm|libpthread|libdl|librt|linux-vdso)\.so\.\d+")
GLIBC_VERSION = re.compile(rb"GLIBC_(\d+)\.(\d+)")
LDD_LINE = re.compile(r"^\s*(\S+) (?:=> (.*) )?\(0x", re.MULTILINE)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hardware_tests(build):
    tests = json.loads(output_of("meson", "introspect", str(build), "--tests"))
    return [test for test in tests if SUITE in test["suite"]]


def line_of(test, source):
    """One line for hardware_tests.py: the name, a tab, and the command as shell words within the
    bundle."""
    program, *arguments = test["cmd"]
    name = pathlib.Path(program).name
    variables = [
        f"{variable}={value}"
        for variable, value in test["env"].items()
        if variable not in ("BERTH_DRIVER", "BERTH_SIM", "LD_LIBRARY_PATH")
    ]
    words = ["env", *variables, f"tests/{name}", *arguments]
    # Paths of the checkout are those of the bundle, which is the working directory.
    return f"{name}\t{shlex.join(word.replace(f'{source}/', '') for word in words)}\n"


def is_program(path):
    return path.is_file() and path.suffix == "" and path.read_bytes()[:4] == b"\x7fELF"


def libraries_of(program):
    """Path by name of each library that the program needs and the bundle has to bring."""
    return {
        name: pathlib.Path(path)
        for name, path in LDD_LINE.findall(output_of("ldd", program))
        if not C_LIBRARY.fullmatch(pathlib.Path(name).name)
    }


def glibc_needed(folder):
    """The newest version of the C library that a file of the bundle names."""
    versions = {
        tuple(map(int, found.groups()))
        for path in folder.rglob("*")
        if path.is_file() and (content := path.read_bytes()).startswith(b"\x7fELF")
        for found in GLIBC_VERSION.finditer(content)
    }
    return ".".join(map(str, max(versions)))


def check(folder):
    """Checks that programs of the bundle need only the C library from outside the bundle."""
    for program in filter(is_program, folder.rglob("*")):
        for name, path in libraries_of(program).items():
            if not path.resolve().is_relative_to(folder):
                sys.exit(f"{program} would take {name} from {path}")


@functools.cache
def targets_of(build):
    return json.loads(output_of("meson", "introspect", str(build), "--targets"))


def simulator_of(build):
    """The library of the simulated driver, which programs load by the first part of its version."""
    for target in targets_of(build):
        if target["name"] == "berth_sim" and target["type"] == "shared library":
            path = pathlib.Path(target["filename"][0])
            return path, re.sub(r"(\.so\.\d+).*", r"\1", path.name)
    return sys.exit(f"{build} has no simulated driver, by which a bundle can be tried")


def is_wanted(name):
    return name.startswith(("bench_", "campaign_")) and name not in SIMULATED


def make(build, tests):
    """Builds only the parts of a bundle."""
    wanted = {
        build / "src/tool/berth",
        *(build / name for name in LOADED),
        simulator_of(build)[0],
        *(pathlib.Path(test["cmd"][0]) for test in tests),
    }
    for target in targets_of(build):
        path = pathlib.Path(target["filename"][0])
        if target["type"] == "executable" and is_wanted(path.name):
            wanted.add(path)
    targets = [str(path.relative_to(build)) for path in sorted(wanted)]
    subprocess.run(["ninja", "-C", str(build), *targets], check=True)


def programs_of(build, tests):
    """Paths by folder of the bundle."""

    def built(part):
        return sorted(
            path for path in (build / part).glob("*") if is_wanted(path.name) and is_program(path)
        )

    return {
        "bin": [build / "src/tool/berth", *built("campaign")],
        "tests": sorted({pathlib.Path(test["cmd"][0]) for test in tests}),
        "bench": built("bench"),
    }


def fill(folder, source, build):
    """Returns the number of programs of each folder."""
    tests = hardware_tests(build)
    programs = programs_of(build, tests)
    for name, paths in programs.items():
        (folder / name).mkdir(parents=True)
        for path in paths:
            shutil.copy2(path, folder / name)
    (folder / "lib").mkdir()
    loaded = [build / name for name in LOADED]
    for path in loaded:
        shutil.copy2(path, folder / "lib")
    simulator, name = simulator_of(build)
    shutil.copy2(simulator, folder / "lib" / name)
    for program in [*sum(programs.values(), []), *loaded, simulator]:
        for name, path in libraries_of(program).items():
            shutil.copy2(path, folder / "lib" / name)
    shutil.copytree(source / "bench/traces", folder / "bench/traces")
    shutil.copy2(source / "bench/report.py", folder / "bench")
    # Tests that differ only in the simulator's configuration are one test on hardware.
    lines = sorted({line_of(test, source) for test in tests})
    (folder / "tests/list").write_text("".join(lines), encoding="utf-8")

    (folder / "scripts").mkdir()
    for name in SCRIPTS:
        shutil.copy2(source / "campaign" / name, folder / "scripts")
    shutil.copytree(source / "campaign/kernels", folder / "kernels")
    shutil.copy2(source / "campaign/README", folder)
    shutil.copy2(source / "campaign/command", folder / COMMAND)
    project = json.loads(output_of("meson", "introspect", str(build), "--projectinfo"))
    about = {
        "berth": project["version"],
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "glibc": glibc_needed(folder),
    }
    (folder / "bundle.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    return {name: len(paths) for name, paths in programs.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    folder, source, build = (
        options.folder.resolve(),
        options.source.resolve(),
        options.build.resolve(),
    )

    if folder.exists() and any(folder.iterdir()) and not (folder / "bundle.json").exists():
        sys.exit(f"{folder} is not empty, and no bundle: name a new folder, or an old bundle")
    shutil.rmtree(folder, ignore_errors=True)
    make(build, hardware_tests(build))
    counts = fill(folder, source, build)
    check(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > BYTES_MAX:
        sys.exit(f"{folder} has {size >> 20} MiB, accepted: {BYTES_MAX >> 20}")
    programs = ", ".join(f"{count} in {name}" for name, count in counts.items())
    print(f"{folder}: {size >> 20} MiB, programs: {programs}. There, run ./{COMMAND} --out RESULTS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
