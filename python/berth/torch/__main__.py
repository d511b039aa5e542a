# SPDX-License-Identifier: Apache-2.0
"""`python -m berth.torch train.py ARGS`: runs a program with berth as PyTorch's allocator."""

from __future__ import annotations

import os
import runpy
import sys

import berth.torch

USAGE = """\
usage: python -m berth.torch [--full] PROGRAM.py [ARGS]
       python -m berth.torch [--full] -m MODULE [ARGS]"""


def main(arguments: list[str]) -> None:
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    is_full = arguments[:1] == ["--full"]
    arguments = arguments[1:] if is_full else arguments
    is_module = arguments[:1] == ["-m"]
    words = arguments[1:] if is_module else arguments
    if not words:
        sys.exit(USAGE)
    if words[0].startswith("-"):
        sys.exit(f'python -m berth.torch: "{words[0]}" is no option\n{USAGE}')
    berth.torch.enable(full=is_full)
    sys.argv = words
    if is_module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
