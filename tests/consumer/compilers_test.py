#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the library alone with one compiler, as somebody who embeds berth does, and with its
install the outside programs of this folder, for which a warning is an error. They run on the
simulated driver if it is built.

  compilers_test.py meson|cmake --source CHECKOUT --toolkit-include DIR --version VERSION
                    --cxx COMPILER [--options OPTION...]

`meson`: as a subproject; its programs are linked by Meson, and once more by pkg-config. `cmake`: by
ExternalProject; its programs are linked by find_package, and once more by pkg-config. OPTION: those
of Meson, such as optimization=1 or simulator=true. Exit status 77 if the compiler is missing, and
without BERTH_TEST_COMPILERS=1, which `./run test compilers` sets, because a build takes minutes.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import consumer_test
import readme
from consumer_test import EXIT_SKIPPED, WARNINGS, expect, installed_headers, run

PROJECT = """project('embedder', 'cpp', 'c', default_options: ['cpp_std=c++20', 'c_std=c11',
  'warning_level=3', 'werror=true', 'buildtype=release', 'unity=on', 'unity_size=30'])
berth_dep = dependency('berth', fallback: 'berth')
foreach name, source : {'readme': 'readme.cpp', 'designated': 'designated.cpp',
    'round_trip': 'round_trip.c'}
  executable(name, source, dependencies: berth_dep)
endforeach
"""
LIBRARY_ALONE = ("traces=false", "pjrt=false")
# Options of berth; others are Meson's, which the embedding project sets for all its parts.
OWN_OPTIONS = ("simulator", "traces", "pjrt", "toolkit_include")


def build_as_subproject(options, folder, examples):
    project = folder / "project"
    (project / "subprojects").mkdir(parents=True)
    (project / "subprojects/berth").symlink_to(options.source, target_is_directory=True)
    (project / "meson.build").write_text(PROJECT, encoding="utf-8")
    shutil.copy(examples["readme"], project / "readme.cpp")
    for name in ("designated.cpp", "round_trip.c"):
        shutil.copy(options.source / "tests/consumer" / name, project)
    settings = (*LIBRARY_ALONE, f"toolkit_include={options.toolkit_include}", *options.options)
    words = [
        f"-Dberth:{setting}" if setting.partition("=")[0] in OWN_OPTIONS else f"-D{setting}"
        for setting in settings
    ]
    prefix = folder / "installed"
    run("meson", "setup", folder / "build", project, "--prefix", prefix, "--libdir", "lib", *words,
        CC=options.cc, CXX=options.cxx)  # fmt: skip
    run("ninja", "-k", "0", "-C", folder / "build")
    if options.simulated:
        for name, printed in (("readme", readme.OUTPUT), ("designated", "allocated"),
                              ("round_trip", re.escape(options.version))):  # fmt: skip
            expect(printed, run(folder / "build" / name, BERTH_DRIVER="sim"))
    run("meson", "install", "-C", folder / "build", "--no-rebuild", "--quiet")
    return prefix


def build_as_external_project(options, folder, _):
    words = " ".join(f"-D{option}" for option in (*LIBRARY_ALONE, "werror=true", *options.options))
    run(
        "cmake", "-G", "Ninja", "-S", options.source / "tests/consumer/external",
        "-B", folder / "cmake", f"-DBERTH_SOURCE={options.source}",
        f"-DBERTH_TOOLKIT_INCLUDE={options.toolkit_include}",
        f"-DBERTH_OPTIONS={';'.join(words.split())}",
        CC=options.cc, CXX=options.cxx,
    )  # fmt: skip
    run("cmake", "--build", folder / "cmake", CC=options.cc, CXX=options.cxx)
    return folder / "cmake/berth-prefix"


def check_headers(options, folder, prefix):
    """All at once: each alone is for the tests of headers."""
    names = [str(header.relative_to(prefix / "include")) for header in installed_headers(prefix)]
    for suffix, compiler, standard in (("cpp", options.cxx, "c++20"), ("c", options.cc, "c11")):
        unit = folder / f"headers.{suffix}"
        taken = [name for name in names if suffix == "cpp" or name.endswith(".h")]
        lines = [f"#include <{name}>\n" for name in taken]
        unit.write_text("".join(lines) + "typedef int unit_is_not_empty;\n", encoding="utf-8")
        run(*compiler.split(), f"-std={standard}", "-fsyntax-only", *WARNINGS, "-Werror",
            f"-I{prefix}/include", unit)  # fmt: skip


def check(options, folder, prefix, examples):
    libdir = prefix / "lib"
    builds = {"pkg-config": consumer_test.build_with_pkg_config}
    if options.way == "cmake":
        builds["find-package"] = consumer_test.build_with_cmake
    for name, build in builds.items():
        programs = folder / name
        programs.mkdir()
        build(options, programs, prefix, libdir, examples)
        if options.simulated:
            consumer_test.check_programs(programs, libdir, options.version)
    check_headers(options, folder, prefix)
    consumer_test.check_older_language(options, folder, prefix)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("meson", "cmake"))
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--toolkit-include", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--options", nargs="*", default=[])
    options = parser.parse_args()
    if os.environ.get("BERTH_TEST_COMPILERS") != "1":
        print("skipped: ./run test compilers runs it")
        return EXIT_SKIPPED
    for program in (options.cxx, options.way, "pkg-config"):
        if shutil.which(program) is None:
            print(f"skipped: no {program} on this machine")
            return EXIT_SKIPPED
    version = subprocess.run([options.cxx, "--version"], capture_output=True, text=True, check=True)
    print(version.stdout.splitlines()[0], flush=True)
    cache = "ccache " if shutil.which("ccache") else ""
    options.cc = cache + options.cxx.replace("clang++", "clang").replace("g++", "gcc")
    options.cxx = cache + options.cxx
    options.simulated = "simulator=true" in options.options
    options.warnings = [*WARNINGS, "-Werror"]
    options.adapter_flag = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        examples = consumer_test.write_examples(options.source, folder)
        build = build_as_subproject if options.way == "meson" else build_as_external_project
        check(options, folder, build(options, folder, examples), examples)
    return 0


if __name__ == "__main__":
    sys.exit(main())
