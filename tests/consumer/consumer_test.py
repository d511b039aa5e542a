#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds outside programs against the installed library, as somebody who embeds berth does, and
runs them on the simulated driver: README.md's example in C++ and round_trip.c in C, each with the
shared library and with the static one.

  consumer_test.py pkg-config|cmake --source CHECKOUT --build BUILD_FOLDER
                   --libdir DIR --version VERSION --cc COMMAND --cxx COMMAND [--werror]

Exit status 77 where the tool to find the library with is missing.
"""
import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import readme

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic"]
EXIT_SKIPPED = 77


def run(*command, **environment):
    """The standard output of the command, which must succeed."""
    command = [str(word) for word in command]
    print("+", shlex.join(command), flush=True)
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}exit status {done.returncode} from: {shlex.join(command)}")
    return done.stdout.strip()


def install(options, folder):
    """Installs into `folder`, and returns the prefix and the library folder within."""
    run("meson", "install", "-C", options.build, "--no-rebuild", "--quiet", "--destdir", folder)
    config = next(folder.rglob("berth.pc"), None)
    if config is None:
        sys.exit("the installed tree has no berth.pc")
    libdir = config.parent.parent
    prefix = libdir
    for _ in pathlib.PurePath(options.libdir).parts:
        prefix = prefix.parent
    return prefix, libdir


def build_with_pkg_config(options, folder, prefix, libdir, example):
    path = f"{libdir}/pkgconfig:{os.environ.get('PKG_CONFIG_PATH', '')}"

    def pkg_config(*words):
        return run("pkg-config", *words, "berth", PKG_CONFIG_PATH=path)

    if pkg_config("--modversion") != options.version:
        sys.exit(f"pkg-config finds another version than {options.version}")
    round_trip = options.source / "tests/consumer/round_trip.c"
    for name, source, compiler in (
        ("readme", example, [*shlex.split(options.cxx), "-std=c++20"]),
        ("round_trip", round_trip, [*shlex.split(options.cc), "-std=c11"]),
    ):
        for linkage, flags in (("shared", []), ("static", ["--static"])):
            words = shlex.split(pkg_config("--cflags", "--libs", *flags))
            if linkage == "static":
                # Where both libraries are installed, -lberth means the shared one.
                words = ["-l:libberth.a" if word == "-lberth" else word for word in words]
            run(*compiler, *options.warnings, source, "-o", folder / f"{name}_{linkage}", *words)


def build_with_cmake(options, folder, prefix, libdir, example):
    run(
        "cmake", "-G", "Ninja", "-S", options.source / "tests/consumer", "-B", folder,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DREADME_EXAMPLE={example}",
        f"-DBERTH_VERSION_WANTED={options.version}", f"-DWARNINGS={';'.join(options.warnings)}",
        CC=options.cc, CXX=options.cxx,
    )  # fmt: skip
    run("cmake", "--build", folder)


def check_programs(folder, libdir, version):
    for linkage in ("shared", "static"):
        environment = {"BERTH_DRIVER": "sim"}
        if linkage == "shared":
            environment["LD_LIBRARY_PATH"] = str(libdir)
        for program, expected in (("readme", readme.OUTPUT), ("round_trip", version)):
            printed = run(folder / f"{program}_{linkage}", **environment)
            if printed != expected:
                sys.exit(f'{program} printed "{printed}" instead of "{expected}"')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("finder", choices=("pkg-config", "cmake"))
    for option in ("libdir", "version", "cc", "cxx"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--werror", action="store_true", help="stop at a warning")
    options = parser.parse_args()
    options.warnings = WARNINGS + (["-Werror"] if options.werror else [])

    if shutil.which(options.finder) is None:
        print(f"skipped: no {options.finder} on this machine")
        return EXIT_SKIPPED
    build = build_with_cmake if options.finder == "cmake" else build_with_pkg_config
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        example = folder / "readme_example.cpp"
        try:
            example.write_text(readme.example(options.source / "README.md"), encoding="utf-8")
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        prefix, libdir = install(options, folder / "installed")
        (folder / "programs").mkdir()
        build(options, folder / "programs", prefix, libdir, example)
        check_programs(folder / "programs", libdir, options.version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
