#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets up berth's sources as part of another project, with the library alone, and checks what that
would build and what it looked for. Building it is left to the tests of the library itself.

  embed_test.py meson|cmake|fetch --source CHECKOUT --toolkit-include DIR

Exit status 77 where cmake is missing.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

# What only the command, the tests, the benchmarks and the readers of traces need.
NOT_LOOKED_FOR = ("cli11", "nlohmann", "zlib", "doctest", "benchmark", "valgrind")
PROJECT = """project('embedder', 'cpp')
berth_dep = dependency('berth', fallback: 'berth',
  default_options: ['simulator=false', 'traces=false', 'toolkit_include=@0@'])
executable('program', 'program.cpp', dependencies: berth_dep)
"""
EXIT_SKIPPED = 77


def run(*command):
    command = [str(word) for word in command]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}exit status {done.returncode} from: {' '.join(command)}")
    return done.stdout


def set_up_with_meson(options, folder):
    """The build folder of a Meson project with berth in subprojects/berth."""
    project = folder / "project"
    (project / "subprojects").mkdir(parents=True)
    (project / "subprojects/berth").symlink_to(options.source, target_is_directory=True)
    text = PROJECT.replace("@0@", str(options.toolkit_include))
    (project / "meson.build").write_text(text, encoding="utf-8")
    (project / "program.cpp").write_text("int main() {}\n", encoding="utf-8")
    run("meson", "setup", folder / "build", project)
    return folder / "build"


def set_up_with_cmake(options, folder):
    """The build folder that ExternalProject sets up for berth."""
    run(
        "cmake", "-G", "Ninja", "-S", options.source / "tests/consumer/external",
        "-B", folder / "cmake", f"-DBERTH_SOURCE={options.source}",
        f"-DBERTH_TOOLKIT_INCLUDE={options.toolkit_include}",
    )  # fmt: skip
    run("cmake", "--build", folder / "cmake", "--target", "berth-configure")
    return next(folder.rglob("build.ninja.d"), None) or next(folder.rglob("meson-info")).parent


def set_up_with_fetch(options, folder):
    """The build folder of berth in a CMake project that fetches it, as its own CMakeLists.txt has
    it set up. The program of the project must be built from what this installs."""
    program = folder / "program.cpp"
    program.write_text("#include <berth/berth.hpp>\nint main() {}\n", encoding="utf-8")
    build = folder / "cmake"
    run(
        "cmake", "-G", "Ninja", "-S", options.source / "tests/consumer/fetched", "-B", build,
        f"-DBERTH_SOURCE={options.source}", f"-DPROGRAM={program}",
        f"-DBERTH_TOOLKIT_INCLUDE={options.toolkit_include}",
    )  # fmt: skip
    run("cmake", "--build", build, "--target", "berth_by_meson-configure")
    commands = run("ninja", "-C", build, "-t", "commands", "program")
    for wanted in (" install -C ", "prefix/lib/libberth.so", "prefix/include"):
        if wanted not in commands:
            sys.exit(f"the program is built without {wanted}:\n{commands}")
    return next(build.rglob("meson-info")).parent


def problems(build):
    log = (build / "meson-logs/meson-log.txt").read_text(encoding="utf-8").lower()
    for name in NOT_LOOKED_FOR:
        if f"dependency {name}" in log or f'header "{name}' in log:
            yield f"{name} was looked for"
    targets = json.loads(run("meson", "introspect", "--targets", build))
    built = {target["name"]: target["type"] for target in targets if target["build_by_default"]}
    if "berth" not in built:
        yield "the library is not built"
    for name, kind in built.items():
        if kind == "executable" and name != "program":
            yield f"the program {name} is built"
        if name in ("berth_sim", "berth_trace", "cuda", "nvidia-ml"):
            yield f"{name} is built, although its option is off"


# Ways to embed berth: the tool that each needs, and what sets it up.
SET_UPS = {
    "meson": ("meson", set_up_with_meson),
    "cmake": ("cmake", set_up_with_cmake),
    "fetch": ("cmake", set_up_with_fetch),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=tuple(SET_UPS))
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--toolkit-include", type=pathlib.Path, required=True)
    options = parser.parse_args()
    tool, set_up = SET_UPS[options.way]
    if shutil.which(tool) is None:
        print(f"skipped: no {tool} on this machine")
        return EXIT_SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        found = list(problems(set_up(options, pathlib.Path(temporary))))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
