#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the tutorial as a reader does: writes the files that the pages show into an empty folder,
runs the commands that they show there, against the installed library, and compares what is printed.
The files must be those of docs/examples/tensor, which stays small: fewer than 150 lines a file, and
than 500 in core. The core in C, which is chapters 1 to 6, has at most half the lines of
core and io in C++, without what those have for chapter 12; its page says both numbers. The images
of the pages must be those that the commands write.

  tutorial_test.py --source CHECKOUT --build BUILD_FOLDER --libdir DIR --version VERSION
                   --cc COMMAND --cxx COMMAND [--werror] [--update]

--update writes the files of docs/examples/tensor and what the commands print into the pages, and
the images beside them.

The programs then run as on a machine with a GPU, which `berth sim` shows them: if NVRTC is here, it
compiles their kernels, and the simulated driver loads and skips them.
Exit status 77 if pkg-config or CMake is missing.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import consumer_test

EXAMPLE = "docs/examples/tensor"
PAGES = "docs/tutorial"
FILE_LINES_MAX = 150
CORE_LINES_MAX = 500
# The program and its simulated machine, which are no part of the core in C.
C_PROGRAM = ("c/main.c", "c/simulator.cpp", "c/simulator.h")
C_PAGE = "11_c.md"
# What core and io have for the opaque devices of chapter 12: a file, and lines of others.
OPAQUE_FILE = "io/buffers.hpp"
OPAQUE_LINE = re.compile(r"opaque|[Bb]uffers?\(|DeviceBuffer|by_buffers|io/buffers")
# A block of a page with the name of the file that it is: ```cpp core/tensor.hpp
FILE_BLOCK = re.compile(r"^```\w+ (?P<name>\S+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<name>[\w.]+)\)")
# What differs from run to run, or with each change of berth's own driver calls.
VARIABLES = ((re.compile(r"0x[0-9a-f]+"), "0x..."), (re.compile(r"\(call \d+\)"), "(call ...)"))
COMMAND_SECONDS_MAX = 300
NVRTC = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")
# Chapters whose programs have kernels, and call no library that needs NVIDIA's runtime.
WITH_KERNELS = ("03_arithmetic", "04_modules", "05_training", "07_parallel", "09_memory",
                "10_graphs")  # fmt: skip


def commands_of(text):
    """Pairs of a command, perhaps of several lines, and what it prints, of one block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command += "\n" + more
        yield command, printed


def without_variables(text):
    for variable, instead in VARIABLES:
        text = variable.sub(instead, text)
    return text


def run_command(command, folder, environment):
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=COMMAND_SECONDS_MAX,
    )  # fmt: skip
    return done.stdout


def follow(page, folder, environment, update):
    """Runs the commands of a page. Returns what is wrong, and the page as it should be."""
    text = page.read_text(encoding="utf-8")
    problems = []
    for block in CONSOLE.finditer(text):
        shown = ""
        for command, expected in commands_of(block["text"]):
            printed = run_command(command, folder, environment)
            shown += f"$ {command}\n{without_variables(printed)}"
            if without_variables(expected) != without_variables(printed):
                problems.append(f"{page.name}: $ {command}\n{printed}--- instead of\n{expected}")
        if update:
            text = text.replace(block["text"], shown)
    return problems, text


def image_problems(page, folder, update):
    """The images of a page are those that its commands write."""
    for image in IMAGE.finditer(page.read_text(encoding="utf-8")):
        shown, written = page.parent / image["name"], folder / image["name"]
        if update:
            shutil.copyfile(written, shown)
        if not written.is_file() or not shown.is_file():
            yield f"{page.name}: the commands do not write {image['name']}"
        elif written.read_bytes() != shown.read_bytes():
            yield f"{page.name}: the commands write another {image['name']}; run with --update"


def has_nvrtc():
    for name in NVRTC:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name) is not None
    return False


def problems_as_on_a_gpu(folder, environment):
    """What the programs of the pages cannot do with the driver of a machine that has GPUs."""
    berth = pathlib.Path(environment["CMAKE_PREFIX_PATH"], "bin", "berth")
    for chapter in WITH_KERNELS:
        command = f"{berth} sim --devices 3 --kernels skip -- ./{chapter}; echo status $?"
        printed = run_command(command, folder, environment)
        expected = ("status 0\n", "no findings", "launches of kernels were skipped")
        if not all(text in printed for text in expected) or "failed with code" in printed:
            yield f"as on a machine with a GPU: {chapter}\n{printed}"


def files_of(folder):
    """The files of the example by name, with their text."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lines_for_c(name, text):
    """The number of lines of a C++ file that the core in C has a counterpart of."""
    if not name.startswith(("core/", "io/")) or name == OPAQUE_FILE:
        return 0
    return sum(not OPAQUE_LINE.search(line) for line in text.splitlines())


def size_problems(files, c_page):
    core = in_cpp = in_c = 0
    for name, text in files.items():
        lines = text.splitlines()
        if len(lines) >= FILE_LINES_MAX:
            yield f"{name}: {len(lines)} lines, fewer than {FILE_LINES_MAX} are allowed"
        if name.startswith("core/"):
            core += len(lines)
        in_cpp += lines_for_c(name, text)
        if name.startswith("c/") and name not in C_PROGRAM:
            in_c += len(lines)
    if core >= CORE_LINES_MAX:
        yield f"core: {core} lines, fewer than {CORE_LINES_MAX} are allowed"
    if 2 * in_c > in_cpp:
        yield f"core in C: {in_c} lines, more than half of the {in_cpp} in C++"
    if f"{in_c} lines" not in c_page or f"{in_cpp} in C++" not in c_page:
        yield f'{C_PAGE} does not say "{in_c} lines" and "{in_cpp} in C++"'


def extract(pages, folder):
    """Writes the files that the pages show, and returns their names with their text."""
    shown = {}
    for page in pages:
        for block in FILE_BLOCK.finditer(page.read_text(encoding="utf-8")):
            shown[block["name"]] = block["text"]
    for name, text in shown.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return shown


def write_files(pages, files):
    def current(block):
        fence = block[0].split("\n", 1)[0]
        return f"{fence}\n{files.get(block['name'], block['text'])}```"

    for page in pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(FILE_BLOCK.sub(current, text), encoding="utf-8")


def environment_of(options, folder):
    """That of a reader who has installed berth, with the compiler under test as `c++`."""
    prefix, libdir = consumer_test.install(options, folder / "installed")
    (folder / "bin").mkdir()
    warnings = " ".join(consumer_test.WARNINGS + (["-Werror"] if options.werror else []))
    for name, command in (("cc", options.cc), ("c++", options.cxx)):
        tool = folder / "bin" / name
        tool.write_text(f'#!/bin/sh\nexec {command} {warnings} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BERTH_", "CUDA_")) and name not in ("CXX", "CC")
    }
    return {
        **kept,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": f"{libdir}/pkgconfig",
        "CMAKE_PREFIX_PATH": str(prefix),
        "LD_LIBRARY_PATH": str(libdir),
    }


def main():
    parser = argparse.ArgumentParser()
    for option in ("libdir", "version", "cc", "cxx"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--werror", action="store_true", help="stop at a warning")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    for tool in ("pkg-config", "cmake"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool} on this machine")
            return consumer_test.EXIT_SKIPPED

    pages = sorted((options.source / PAGES).glob("[0-9]*.md"))
    files = files_of(options.source / EXAMPLE)
    if options.update:
        write_files(pages, files)
    c_page = (options.source / PAGES / C_PAGE).read_text(encoding="utf-8")
    problems = list(size_problems(files, c_page))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        environment = environment_of(options, folder)
        (folder / "tutorial").mkdir()
        shown = extract(pages, folder / "tutorial")
        for name in sorted(files.keys() | shown.keys()):
            if files.get(name) != shown.get(name):
                problems.append(f"{name}: {EXAMPLE} and {PAGES} differ; run with --update")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            work = {
                page: pool.submit(follow, page, folder / "tutorial", environment, options.update)
                for page in pages
            }
        for page, followed in work.items():
            wrong, text = followed.result()
            problems += wrong
            if options.update:
                page.write_text(text, encoding="utf-8")
            problems += image_problems(page, folder / "tutorial", options.update)
        if has_nvrtc():
            problems += problems_as_on_a_gpu(folder / "tutorial", environment)
        else:
            print("no NVRTC on this machine: no program runs as on a machine with a GPU")
    print("\n".join(problems) or f"{len(pages)} pages, {len(files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
