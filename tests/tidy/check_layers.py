#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the code against the layer table of src/meson.build, which passes it in:

  check_layers.py --root CHECKOUT --layer base= --layer driver=base ...

Prints `file:line: reason` for each violation; exit status 1 if there is one.
"""

import argparse
import pathlib
import re
import sys

from source_tree import cpp_files, read, relative, without_comments_and_literals

# What one layer may include of another beyond the table: the simulator plays NVML too, and has
# functions of its own, so it needs those ABIs, which are data and no code. The runtime exports its
# functions as the simulator does.
# libberth_pjrt implements the one entry point that the layer above declares.
ABIS = {"driver/newer_declarations.hpp", "driver/sim_abi.hpp", "driver/sim_kernel_abi.hpp"}
EXTRA_INCLUDES = {
    "sim": {"driver/nvml_abi.hpp"} | ABIS,
    "cudart": {"sim/exports/trampoline.hpp"} | ABIS,
    "pjrt": {"berth/pjrt.hpp", "device/pjrt_library.hpp"},
}
# The layers that call or define CUDA functions by NVIDIA's names.
CUDA_LAYERS = {"driver", "sim", "cudart"}
# The layers that include fmt, whose templates each file that uses them compiles anew. All others
# call format_text() of base/format.hpp.
FMT_LAYERS = {"base", "tool"}
ENVIRONMENT_READER = "src/base/env.cpp"

INCLUDE_DIRECTIVE = re.compile(r"\s*#\s*include\b")
INCLUDE = re.compile(INCLUDE_DIRECTIVE.pattern + r'\s*(<[^>]+>|"[^"]+"|\S+)')
CUDA_FUNCTION = re.compile(r"\b(cu(?:da)?[A-Z]\w*|nvml[A-Z]\w*)\b")
GETENV = re.compile(r"\b(?:secure_)?getenv\b|\benviron\b")
STANDARD_HEADER = re.compile(r"<[a-z_0-9]+(\.h)?>")
FMT_HEADER = re.compile(r"<fmt/.*>")
CUDA_HEADER = re.compile(r"<(cuda\w*|nvml)\.h>")


def closure(table, layer):
    """The layers that `layer` may include besides itself."""
    reached = set()
    pending = list(table[layer])
    while pending:
        used = pending.pop()
        if used not in reached:
            reached.add(used)
            pending += table[used]
    return reached


def includes(path):
    for number, line in enumerate(read(path).splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match.group(1)


def header_owners(root, table):
    """The layer of each public header: that of the source file of the same name."""
    owners = {}
    for layer in table:
        for path in cpp_files(root, f"src/{layer}"):
            own = next((target for _, target in includes(path)), "").strip('"')
            if own.startswith("berth/") and pathlib.Path(own).stem == path.stem:
                owners[own] = layer
    return owners


def include_problem(table, owners, layer, target):
    """Why a file of `layer` may not include `target`, or None. `tool` is no layer of the table."""
    reached = closure(table, layer) if layer in table else set()
    if CUDA_HEADER.fullmatch(target):
        knows_cuda = CUDA_LAYERS & (reached | {layer})
        return None if knows_cuda else f"src/{layer} must not include {target}"
    if FMT_HEADER.fullmatch(target) and layer not in FMT_LAYERS:
        return f"src/{layer} must not include {target}: base/format.hpp has format_text()"
    if not target.startswith('"'):
        return None if target.startswith("<") else "an include by macro cannot be checked"
    name = target.strip('"')
    folder = name.split("/")[0] if "/" in name else ""
    if folder == layer or name in EXTRA_INCLUDES.get(layer, ()):
        return None
    if folder == "berth":
        owner = owners.get(name, layer)
        allowed = layer not in table or owner in reached | {layer}
        return None if allowed else f"src/{layer} must not include {target} of src/{owner}"
    if folder not in table:
        return f"{target} is neither a layer's header nor a public one (write it from src/ on)"
    if folder not in reached:
        return f"src/{layer} must not include src/{folder}"
    return None


def public_include_problem(root, target):
    if target.startswith('"berth/'):
        name = target.strip('"')
        return None if (root / "include" / name).is_file() else f"{target} does not exist"
    if STANDARD_HEADER.fullmatch(target) and not CUDA_HEADER.fullmatch(target):
        return None
    return f"a public header must not include {target}"


def name_problems(layer, file, text):
    for number, line in enumerate(without_comments_and_literals(text).splitlines(), start=1):
        if INCLUDE_DIRECTIVE.match(line):
            continue
        if layer not in CUDA_LAYERS and (match := CUDA_FUNCTION.search(line)):
            yield number, f"only src/driver, src/sim and src/cudart may name {match.group()}"
        if file != ENVIRONMENT_READER and layer != "tool" and GETENV.search(line):
            yield number, f"only {ENVIRONMENT_READER} reads the environment"


def problems(root, table):
    owners = header_owners(root, table)
    for layer in [*table, "tool"]:
        for path in cpp_files(root, f"src/{layer}"):
            file = relative(path, root)
            for number, target in includes(path):
                if reason := include_problem(table, owners, layer, target):
                    yield file, number, reason
            for number, reason in name_problems(layer, file, read(path)):
                yield file, number, reason
    for path in cpp_files(root, "include"):
        file = relative(path, root)
        for number, target in includes(path):
            if reason := public_include_problem(root, target):
                yield file, number, reason
        for number, reason in name_problems("include", file, read(path)):
            yield file, number, reason
    for path in cpp_files(root, "src"):
        file = relative(path, root)
        if file.split("/")[1] not in {*table, "tool"}:
            yield file, 1, "belongs to no layer of src/meson.build"


def parse_table(arguments):
    table = {}
    for argument in arguments:
        name, _, uses = argument.partition("=")
        table[name] = [used for used in uses.split(",") if used]
    unknown = {used for uses in table.values() for used in uses} - set(table)
    if unknown:
        sys.exit(f"layers used but not in the table: {', '.join(sorted(unknown))}")
    return table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--layer", action="append", required=True, metavar="NAME=USED,...")
    options = parser.parse_args()
    found = list(problems(options.root, parse_table(options.layer)))
    for file, number, reason in found:
        print(f"{file}:{number}: {reason}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
