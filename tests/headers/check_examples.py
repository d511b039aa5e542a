#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of a page: blocks of C++, each the body of a function with PARAMETERS, except those
that it defines itself.

check_examples.py --page PAGE --program FILE        makes one program of them
check_examples.py --page PAGE --headers HEADER...   prints the public types that none of them uses;
                                                    exit status 1 if there are any
"""

import argparse
import pathlib
import re
import sys

import public_types

# Name: type, argument, and the definition in a body that replaces the parameter.
PARAMETERS = {
    "runtime": ("Runtime&", "runtime", r"\bRuntime runtime\b"),
    "device": ("Device", "device", r"\bDevice device\b"),
    "stream": ("StreamRef", "stream.ref()", r"\bStream\w* stream\b"),
    "simulator": ("sim::Simulator&", "simulator", r"\bSimulator simulator\b"),
}
START = """\
#include <berth/berth.hpp>
#include <berth/sim.hpp>
#include <berth/trace.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

using namespace berth;

namespace {
"""


def bodies_of(page):
    """Pairs of the line that a block begins on, and its code."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def program_of(page, bodies):
    parts = [START]
    calls = []
    for number, (line, body) in enumerate(bodies, start=1):
        given = {
            name: (kind, argument)
            for name, (kind, argument, definition) in PARAMETERS.items()
            if not re.search(definition, body)
        }
        parameters = ",\n    ".join(
            f"[[maybe_unused]] {kind} {name}" for name, (kind, _) in given.items()
        )
        parts.append(
            f"\n[[maybe_unused]] void example_{number}(\n    {parameters}) {{\n"
            f'#line {line} "{page.name}"\n{body}}}\n'
        )
        arguments = ", ".join(argument for _, argument in given.values())
        calls.append(f"  example_{number}({arguments});\n")
    parts.append(
        "\n}  // namespace\n\nint main() {\n"
        '  sim::Simulator simulator("devices=2");\n'
        '  Runtime runtime({.driver = "sim"});\n'
        "  const Device device = Device::cuda(0);\n"
        "  const Stream stream = runtime.create_stream(device);\n"
        + "".join(calls)
        + f'  std::puts("{len(calls)} examples ran");\n}}\n'
    )
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", type=pathlib.Path, required=True)
    parser.add_argument("--headers", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--program", type=pathlib.Path)
    options = parser.parse_args()
    bodies = list(bodies_of(options.page))
    code = "".join(body for _, body in bodies)
    missing = [
        f"{header.name}: {name} has no example in {options.page.name}"
        for header in options.headers
        for name in public_types.types_of(header.read_text(encoding="utf-8"))
        if not re.search(rf"\b{name}\b", code)
    ]
    print("\n".join(missing), end="\n" if missing else "")
    if options.program:
        options.program.write_text(program_of(options.page, bodies), encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
