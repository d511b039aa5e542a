#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""berth's declarations of the PJRT ABI agree with OpenXLA's header.

  abi_test.py COMPILER INCLUDE_FOLDER COMPARISON

The header comes with the wheel xla-cpu-pjrt; BERTH_PJRT_WHEELS is the folder that it was installed
into. Without it the exit status is 77: skipped.
"""

import os
import pathlib
import subprocess
import sys

HEADERS = "xla_plugins/xla_cpu_pjrt/include"


def compiles(compiler, include, headers, source, *more):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-I", include, "-isystem", headers]
    return subprocess.run([*command, *more, source], check=False).returncode == 0


def main():
    compiler, include, comparison = sys.argv[1:]
    headers = pathlib.Path(os.environ.get("BERTH_PJRT_WHEELS", "/nonexistent")) / HEADERS
    if not (headers / "pjrt_c_api.h").exists():
        print("no pjrt_c_api.h: `./run test pjrt` fetches it")
        return 77
    return 0 if compiles(compiler, include, headers, comparison) else 1


if __name__ == "__main__":
    sys.exit(main())
