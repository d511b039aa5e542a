# SPDX-License-Identifier: Apache-2.0
"""Holds the names that berth's CUDA runtime exports, with their versions, against the list of those
that NVIDIA's libraries export, and the page about it against the functions that are implemented.

  exported_names_test.py --nm NM --names FILE --functions FOLDER --docs PAGE --library FILE FILE
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"\bX\((_*cuda\w+), ")


def listed_names(path):
    """The names of the list, for each major."""
    names = {"12": set(), "13": set()}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, *majors = line.split()
        for major in majors:
            names[major].add(name)
    return names


def exported_names(nm, library):
    """Pairs of a name and its version; the version node itself is none."""
    output = subprocess.run(
        [nm, "--dynamic", "--defined-only", "--with-symbol-versions", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = [line.split()[-1] for line in output.splitlines()]
    return [tuple(symbol.split("@@")) for symbol in symbols if "@@" in symbol]


def problems(options):
    listed = listed_names(options.names)
    for library in options.library:
        major = library.name.rpartition(".")[2]
        node = f"libcudart.so.{major}"
        exported = exported_names(options.nm, library)
        yield from (f"{node}: {name} has version {version}" for name, version in exported
                    if version != node)
        names = {name for name, _ in exported}
        yield from (f"{node}: {name} is missing" for name in sorted(listed[major] - names))
        yield from (f"{node}: {name} is too much" for name in sorted(names - listed[major]))
    implemented = set()
    for match in ROW.finditer((options.functions / "functions.hpp").read_text()):
        implemented.add(match.group(1))
    missing = set()
    for match in ROW.finditer((options.functions / "missing_functions.hpp").read_text()):
        missing.add(match.group(1))
    page = options.docs.read_text()
    described = set(re.findall(r"`(_*cuda\w+)`", page))
    for name in sorted(implemented - described):
        if not re.sub(r"_v2$", "", name) in described:
            yield f"{options.docs.name}: {name} is implemented and not in the table"
    table = page[page.index("| family |"):]
    promised = set(re.findall(r"`(_*cuda\w+)`", table[: table.index("\n\n")]))
    for name in sorted(promised & missing):
        yield f"{options.docs.name}: {name} is in the table and not implemented"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", required=True)
    for option in ("names", "functions", "docs"):
        parser.add_argument("--" + option, required=True, type=pathlib.Path)
    parser.add_argument("--library", required=True, type=pathlib.Path, nargs="+")
    found = list(problems(parser.parse_args()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
