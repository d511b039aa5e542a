#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each C++ source file of the library, its adapters and the benchmarks includes what it uses: it
compiles alone, with the options of the build, though the build compiles many at once.

  check_alone.py --root CHECKOUT --build FOLDER [--left-out LAYER,...]

--left-out: layers that the build does not have.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

FOLDERS = ("src", "adapters", "bench")
# Options with a value that name what the compiler writes.
RESULTS = ("-o", "-MF", "-MQ")


def parts_of(file):
    """The files that a jumbo file includes; otherwise the file itself."""
    if not re.search(r"-unity\d+\.cpp$", file.name):
        return [file]
    names = re.findall(r"^#include<(.*)>$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [pathlib.Path(name).resolve() for name in names]


def without_results(command):
    """The words of a compiler's command but its file and what it would write."""
    words = iter(word for word in shlex.split(command) if word not in ("-c", "-MD"))
    kept = []
    for word in words:
        if word in RESULTS:
            next(words)
        else:
            kept.append(word)
    return [*kept[:-1], "-fsyntax-only"]


def commands(root, build):
    """The command for each file, as of the first target that has it."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if file.suffix != ".cpp" or not file.is_file():
            continue
        for part in parts_of(file):
            if part.is_relative_to(root) and part.relative_to(root).parts[0] in FOLDERS:
                found.setdefault(part, without_results(entry["command"]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--left-out", default="")
    options = parser.parse_args()
    root, build = options.root.resolve(), options.build.resolve()
    found = commands(root, build)
    left_out = options.left_out.split(",")
    layers = [path for path in (root / "src").iterdir() if path.name not in left_out]
    sources = {path for layer in layers for path in layer.rglob("*.cpp")}
    if missing := sources - found.keys():
        sys.exit("in no target: " + " ".join(sorted(str(path) for path in missing)))

    def compile_alone(file):
        words = [*found[file], str(file)]
        return subprocess.run(words, cwd=build, capture_output=True, text=True, check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for file, done in zip(found, threads.map(compile_alone, found)):
            if done.returncode != 0:
                failed += 1
                print(f"{file.relative_to(root)}:\n{done.stderr}")
    print(f"{len(found) - failed} of {len(found)} files compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
