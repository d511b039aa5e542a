#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the built libraries against what may leave them and what they may need.

  check_symbols.py --nm NM --readelf READELF --shared FILE... --static FILE... --lookalike FILE...

Shared: only names in namespace berth and berth_* are exported, and of these no private part of a
class; nothing of CUDA or NVML is exported, wanted or linked. libberth needs few libraries.
Static: no global symbol of CUDA or NVML, defined or wanted.
Look-alike: only NVIDIA's names are exported, and no other look-alike is linked.
Prints `file: symbol: reason` for each violation; exit status 1 if there is one.
"""

import argparse
import re
import subprocess
import sys

EXPORTED = re.compile(r"(?:(?:typeinfo|typeinfo name|vtable|VTT) for )?berth::|berth_\w+$")
# What an exported class has behind a pointer. Its definition is hidden, or its functions would be
# exported with those of the class.
PRIVATE_PART = re.compile(r"::(?:Impl|State)(?:::|$)")
VERSION_NODE = re.compile(r"BERTH_(?:[A-Z]+_)?[0-9.]+$")
RUNTIME_VERSION_NODE = re.compile(r"libcudart\.so\.[0-9]+$")
CUDA = re.compile(r"_*(?:cu[A-Z]|cuda[A-Z]|nvml[A-Z])")
# By which NVTX finds the simulator as a tool.
SIMULATOR_LIBRARY = re.compile(r"libberth_sim\.so")
TOOL_ENTRIES = ("InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension")
EMBEDDED_LIBRARY = re.compile(r"libberth\.so")
# What it may need.
EMBEDDED_NEEDS = re.compile(r"(?:libfmt|libstdc\+\+|libm|libgcc_s|libc|ld-linux-[\w-]+)\.so\.\d+$")
CUDA_LIBRARY = re.compile(r"lib(?:cuda|cudart|nvidia-ml)\b.*\.so")


def symbol_names(nm_output):
    """The last column of nm's table; archive member headings and blank lines have none."""
    for line in nm_output.splitlines():
        match = re.match(r"(?:[0-9a-f]+| +) +[A-Za-z] (.+)$", line)
        if match:
            yield match.group(1)


def export_problems(names, also=()):
    """`names` demangled, with the symbol version that nm appends ("berth_x@@BERTH_0.1"). `also`:
    other names that may be exported."""
    exported = 0
    for versioned in names:
        name = re.sub(r"@+[A-Za-z0-9_.]+$", "", versioned)
        if VERSION_NODE.match(name):
            continue
        exported += 1
        if not EXPORTED.match(name) and name not in also:
            yield name, "exported, but neither in namespace berth nor berth_*"
        elif PRIVATE_PART.search(name.split("(")[0]):
            yield name, "exported, but a private part: its definition takes BERTH_HIDDEN"
    if exported == 0:
        yield "(none)", "nothing is exported"


def cuda_problems(names):
    for name in names:
        if CUDA.match(name):
            yield name, "a name of CUDA or NVML: those are looked up at run time, never linked"


def lookalike_problems(names):
    """`names` of what a look-alike exports."""
    exported = [name for name in names if not RUNTIME_VERSION_NODE.match(name)]
    for name in exported:
        if not CUDA.match(name):
            yield name, "exported, but no name of CUDA or NVML"
    if not exported:
        yield "(none)", "nothing is exported"


def linked_libraries(readelf_output):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", readelf_output)


def link_problems(libraries):
    for library in libraries:
        if CUDA_LIBRARY.match(library):
            yield library, "linked, but must be loaded at run time"


def embedded_problems(libraries):
    for library in libraries:
        if not EMBEDDED_NEEDS.match(library):
            yield library, "linked, but an embedder should not need it"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    for option in ("nm", "readelf"):
        parser.add_argument("--" + option, required=True)
    for option in ("shared", "static", "lookalike"):
        parser.add_argument("--" + option, nargs="+", required=True)
    options = parser.parse_args()
    nm, readelf = options.nm, options.readelf

    found = []

    def note(file, problems):
        found.extend(f"{file}: {name}: {reason}" for name, reason in problems)

    for shared in options.shared:
        exported = output_of(nm, "--dynamic", "--defined-only", "--demangle", shared)
        wanted = output_of(nm, "--dynamic", "--undefined-only", shared)
        also = TOOL_ENTRIES if SIMULATOR_LIBRARY.search(shared) else ()
        note(shared, export_problems(symbol_names(exported), also))
        note(shared, cuda_problems(symbol_names(exported)))
        note(shared, cuda_problems(symbol_names(wanted)))
        libraries = linked_libraries(output_of(readelf, "-d", shared))
        note(shared, link_problems(libraries))
        if EMBEDDED_LIBRARY.search(shared):
            note(shared, embedded_problems(libraries))
    for static in options.static:
        note(static, cuda_problems(symbol_names(output_of(nm, "--extern-only", static))))
    for lookalike in options.lookalike:
        exported = output_of(nm, "--dynamic", "--defined-only", lookalike)
        note(lookalike, lookalike_problems(symbol_names(exported)))
        note(lookalike, link_problems(linked_libraries(output_of(readelf, "-d", lookalike))))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
