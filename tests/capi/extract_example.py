#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the one C program of a Markdown page into a file: extract_example.py PAGE PROGRAM"""

import pathlib
import re
import sys

page, program = map(pathlib.Path, sys.argv[1:])
blocks = re.findall(
    r"^```c\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
if len(blocks) != 1:
    sys.exit(f"{page}: has {len(blocks)} blocks of C; accepted: 1")
program.write_text(blocks[0], encoding="utf-8")
