# SPDX-License-Identifier: Apache-2.0
"""Holds the names that the look-alike of libcuda exports against those that cuda.h declares, and
the CUDA versions in the list of unsupported functions against cudaTypedefs.h.

  exported_names_test.py --nm NM --headers FOLDER --list FILE --newest VERSION --library FILE -- CXX
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

SOURCE = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
# The header declares different names for each of these.
VARIANTS = ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"], ["-D__CUDA_API_VERSION_INTERNAL"])
DECLARATION = re.compile(r"\bCUresult\s+(cu[A-Z]\w+)\s*\([^;{]*\)\s*;")
TYPE = re.compile(r"\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)")
NAME = re.compile(r"(cu\w+?)(_v\d+)?(_pt[sd][sz])?")
ROW = re.compile(r"\bX\((cu\w+), (\d+)\)")


def declared_names(options):
    names = set()
    for variant in VARIANTS:
        flags = ["-E", "-P", f"-I{options.headers}", *variant, "-x", "c++", "-"]
        text = subprocess.run(
            [*options.compiler, *flags], input=SOURCE, check=True, capture_output=True, text=True
        ).stdout
        names.update(DECLARATION.findall(text))
    return names


def versions(names, headers):
    """The CUDA version of each name: the ABIs of a function, in order."""
    numbers = collections.defaultdict(list)
    for base, version, form in TYPE.findall((headers / "cudaTypedefs.h").read_text()):
        numbers[base, form].append(int(version))
    abis = collections.defaultdict(list)
    for name in names:
        base, abi, form = NAME.fullmatch(name).groups(default="")
        abis[base, form].append((int(abi[2:] or 1), name))
    return {
        name: version
        for key, named in abis.items()
        for (_, name), version in zip(sorted(named), sorted(numbers[key]))
    }


def exported_names(options):
    command = [options.nm, "--dynamic", "--defined-only", options.library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in output.splitlines()}


def problems(options):
    declared = declared_names(options)
    if len(declared) < 600:
        yield f"cuda.h seems to declare only {len(declared)} functions"
    since = versions(declared, options.headers)
    exported = exported_names(options)
    for name in sorted(declared - exported):
        if since.get(name, 0) <= options.newest:
            yield f"{name} is declared and not exported"
    for name, version in ROW.findall(options.list.read_text()):
        if int(version) != since.get(name, int(version)):
            yield f"{name} is of CUDA {since[name]}, not {version}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", required=True)
    for option in ("headers", "list", "library"):
        parser.add_argument("--" + option, required=True, type=pathlib.Path)
    parser.add_argument("--newest", required=True, type=int)
    parser.add_argument("compiler", nargs="+")
    found = list(problems(parser.parse_args()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
