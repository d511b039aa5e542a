#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the C ABI against the C++ headers: every public type, function and field has a name in C,
or a row in the documentation that says why it has none.

  check_coverage.py --headers HEADER... --names c_names.toml --page docs/c_api.md

Prints one line for each that is missing, is named twice, or does not exist; exit status 1 if there
is one.
"""

import argparse
import pathlib
import re
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "headers"))
import public_types  # noqa: E402

HEADING = "## What only C++ has"


def reasons_of(page):
    """The names of the page's table, each with its reason."""
    text = page.read_text(encoding="utf-8")
    if HEADING not in text:
        return {}
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    reasons = {}
    for names, reason in re.findall(r"^\| (`.*?) \| (.+) \|$", section, re.MULTILINE):
        for name in re.findall(r"`([\w:]+)`", names):
            reasons[name.replace("::", ".")] = reason
    return reasons


def offered(headers):
    """Every public name of C++: types, "Type.member", and functions. Members that a base class of
    allocators has declared are that class's."""
    names = []
    of_allocator = set()
    for header in headers:
        text = header.read_text(encoding="utf-8")
        for name, members in public_types.members_of(text):
            if name == "Allocator":
                of_allocator = set(members)
    for header in headers:
        text = header.read_text(encoding="utf-8")
        for name, members in public_types.members_of(text):
            is_allocator = name.endswith("Allocator") and name != "Allocator"
            own = [m for m in members if not (is_allocator and m in of_allocator)]
            names.append((name, own))
        names += [(name, []) for name in public_types.aliases_of(text)]
        names += [(name, []) for name in public_types.functions_of(text)]
    return names


def problems(headers, names, reasons):
    cpp = [header for header in headers if header.suffix == ".hpp"]
    c_text = "".join(h.read_text(encoding="utf-8") for h in headers if h.suffix == ".h")
    known = set()
    for name, members in offered(cpp):
        known.add(name)
        known.update(f"{name}.{member}" for member in members)
        if name in names or name in reasons:
            continue
        if not members:
            yield f"{name}: no name in C, and no reason"
        for member in members:
            full = f"{name}.{member}"
            if full not in names and full not in reasons:
                yield f"{full}: no name in C, and no reason"
    for name in sorted(set(names) & set(reasons)):
        yield f"{name}: has a name in C, and a reason why not"
    for name in sorted((set(names) | set(reasons)) - known):
        yield f"{name}: is no public name of C++"
    for name, used in names.items():
        for function in [used] if isinstance(used, str) else used:
            if not re.search(rf"\b{function}\b", c_text):
                yield f"{name}: the C headers have no {function}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headers", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--names", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    options = parser.parse_args()
    names = tomllib.loads(options.names.read_text(encoding="utf-8"))
    found = list(dict.fromkeys(problems(options.headers, names, reasons_of(options.page))))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
