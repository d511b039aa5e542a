#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C and C++ file is as clang-format leaves it. The versions of clang-format differ in what
they leave, so only the one that the project is formatted with is asked.

  check_format.py --root CHECKOUT

Prints `file:line: reason` for the first place in each file; exit status 1 if there is one, 77 where
that version is missing.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from source_tree import CODE_FOLDERS, cpp_files, relative

MAJOR_VERSION = 14
EXIT_SKIPPED = 77


def find_clang_format():
    for name in (f"clang-format-{MAJOR_VERSION}", "clang-format"):
        try:
            said = subprocess.run([name, "--version"], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        if re.search(rf"version {MAJOR_VERSION}\.", said.stdout):
            return name
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root
    clang_format = find_clang_format()
    if clang_format is None:
        print(f"skipped: no clang-format {MAJOR_VERSION} on this machine")
        return EXIT_SKIPPED
    files = [path for folder in CODE_FOLDERS for path in cpp_files(root, folder)]
    command = [clang_format, "--dry-run", "--Werror", "--style=file", *files]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    places = re.findall(r"^(.+?):(\d+):\d+: error:", done.stderr, re.MULTILINE)
    for file, number in sorted(dict(reversed(places)).items()):
        print(f"{relative(file, root)}:{number}: not as clang-format leaves it")
    if done.returncode != 0 and not places:
        sys.exit(done.stderr)
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
