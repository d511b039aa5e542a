#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a plug-in that comes as a wheel, or says that the wheel is missing.

  outside_plugin.py NAME PROGRAM

BERTH_PJRT_WHEELS is the folder that the wheels were installed into. Exit status 77: skipped.
"""

import os
import pathlib
import subprocess
import sys

PLUGINS = {
    "xla-cpu-pjrt": "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    "libtpu": "libtpu/libtpu.so",
}


def main():
    name, program = sys.argv[1:]
    plugin = pathlib.Path(os.environ.get("BERTH_PJRT_WHEELS", "/nonexistent")) / PLUGINS[name]
    if not plugin.exists():
        print(f"no {name}: `./run test pjrt` fetches it (libtpu with BERTH_TEST_TPU=1)")
        return 77
    return subprocess.run([program, "--no-version", "--no-intro"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
