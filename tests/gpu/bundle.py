#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with what is to be tried on a machine with a GPU: the tests of suite `hardware`,
the benchmarks, the command, and every library of theirs that is not the C library's or linked statically.

  bundle.py --source CHECKOUT --build BUILD_FOLDER FOLDER

The build must have -Dportable=true, so that programs need few, and find them in ../lib.
"""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

SUITE = "berth:hardware"
# What the C library of the other machine has to bring itself.
C_LIBRARY = re.compile(r"(ld-linux-x86-64|libc|libm|libpthread|libdl|librt|linux-vdso)\.so\.\d+")
LDD_LINE = re.compile(r"^\s*(\S+) (?:=> (.*) )?\(0x", re.MULTILINE)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hardware_tests(build):
    tests = json.loads(output_of("meson", "introspect", str(build), "--tests"))
    return [test for test in tests if SUITE in test["suite"]]


def line_of(test, source):
    """One line for run-on-gpu: the name, a tab, and the command as shell words within the bundle."""
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


def check(folder):
    """Nothing that a program of the bundle needs may come from this machine but the C library."""
    for program in filter(is_program, folder.rglob("*")):
        for name, path in libraries_of(program).items():
            if not path.resolve().is_relative_to(folder):
                sys.exit(f"{program} would take {name} from {path}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    folder, source, build = options.folder.resolve(), options.source.resolve(), options.build.resolve()
    here = source / "tests/gpu"

    if folder.exists() and any(folder.iterdir()) and not (folder / "run-on-gpu").exists():
        sys.exit(f"{folder} is not empty, and no bundle: name a new folder, or an old bundle")
    shutil.rmtree(folder, ignore_errors=True)
    tests = hardware_tests(build)
    programs = {
        "bin": [build / "src/tool/berth"],
        "tests": sorted({pathlib.Path(test["cmd"][0]) for test in tests}),
        "bench": sorted(path for path in (build / "bench").glob("bench_*") if is_program(path)),
    }
    for name, paths in programs.items():
        (folder / name).mkdir(parents=True)
        for path in paths:
            shutil.copy2(path, folder / name)
    (folder / "lib").mkdir()
    for program in sum(programs.values(), []):
        for name, path in libraries_of(program).items():
            shutil.copy2(path, folder / "lib" / name)
    shutil.copytree(source / "bench/traces", folder / "bench/traces")
    shutil.copy2(source / "bench/report.py", folder / "bench")
    # Tests that differ only in how the simulator is set up are one on hardware.
    lines = sorted({line_of(test, source) for test in tests})
    (folder / "tests/list").write_text("".join(lines), encoding="utf-8")
    for name in ("README", "run-on-gpu"):
        shutil.copy2(here / name, folder)
    check(folder)

    counts = ", ".join(f"{len(paths)} in {name}" for name, paths in programs.items())
    print(f"{folder}: programs: {counts}. Its README says how to run it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
