#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds outside programs against the installed library, as somebody who embeds berth does, and
runs them on the simulated driver: README.md's example in C++ and round_trip.c in C, each with the
shared library and with the static one. With nvcc: compare.cu, with the shared library.

  consumer_test.py pkg-config|cmake|nvcc --source CHECKOUT --build BUILD_FOLDER
                   --libdir DIR --version VERSION --cc COMMAND --cxx COMMAND [--nvcc FILE] [--werror]

Exit status 77 if pkg-config, cmake or nvcc is missing.
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


def build_with_nvcc(options, folder, prefix, libdir, example):
    # nvcc wants the compiler itself, without a compiler cache in front of it.
    words = [options.finder_path, "-std=c++20", "-ccbin", shlex.split(options.cxx)[-1]]
    words += ["-Xcompiler", "-Wall,-Wextra", *(["-Werror", "all-warnings"] if options.werror else [])]
    words += ["-Xcompiler", "-Werror"] if options.werror else []
    source = options.source / "tests/consumer/compare.cu"
    run(*words, f"-I{prefix}/include", source, "-o", folder / "compare_shared", f"-L{libdir}",
        "-lberth")  # fmt: skip


def find_tool(options):
    """The tool that finds the library, or nvcc: the one that is named, or else in PATH."""
    if options.finder == "nvcc" and options.nvcc.is_file():
        return options.nvcc
    return shutil.which(options.finder)


def check_programs(folder, libdir, version):
    expected = {
        "readme": readme.OUTPUT,
        "round_trip": version,
        "compare": "all comparisons agree",
    }
    programs = sorted(path for path in folder.iterdir() if path.stem.endswith(("_shared", "_static")))
    for path in programs:
        program, linkage = path.name.rsplit("_", 1)
        environment = {"BERTH_DRIVER": "sim"}
        if linkage == "shared":
            environment["LD_LIBRARY_PATH"] = str(libdir)
        printed = run(path, **environment)
        if printed != expected[program]:
            sys.exit(f'{program} printed "{printed}" instead of "{expected[program]}"')
    return len(programs)


# What builds the programs, and how many they are.
BUILDS = {
    "pkg-config": (build_with_pkg_config, 4),
    "cmake": (build_with_cmake, 4),
    "nvcc": (build_with_nvcc, 1),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("finder", choices=tuple(BUILDS))
    for option in ("libdir", "version", "cc", "cxx"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", type=pathlib.Path, default=pathlib.Path("nvcc"))
    parser.add_argument("--werror", action="store_true", help="stop at a warning")
    options = parser.parse_args()
    options.warnings = WARNINGS + (["-Werror"] if options.werror else [])

    options.finder_path = find_tool(options)
    if options.finder_path is None:
        print(f"skipped: no {options.finder} on this machine")
        return EXIT_SKIPPED
    build, count = BUILDS[options.finder]
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
        if check_programs(folder / "programs", libdir, options.version) != count:
            sys.exit(f"{options.finder} must build {count} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
