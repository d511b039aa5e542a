#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds each source, build and script file against the rules that need no parser: licence line,
length, width, tabs, words that mark unfinished work; in public headers also the labels of comments.
Holds each page to the width, and the page of public headers to their list.

  check_text.py --root CHECKOUT

Prints `file:line: reason` for each violation; exit status 1 if there is one.
"""

import argparse
import pathlib
import re
import sys

from source_tree import code_files, pages, read, relative

LINES_MAX = 400
TEST_LINES_MAX = 640
COLUMNS_MAX = 100
HEADERS_PAGE = "docs/headers.md"
# What a paragraph of a public header's comment may begin with, followed by two spaces or more.
LABELS = frozenset(
    """
    Alignment Blocking Bounds Captures Errors Exit Failures Fork Growth Heaps Lifetime Memory Null
    Order Peers Saved Signals Sizes Source Stream Structs Target Text Threads Transfer Units
    Workspace
    """.split()
)
LABEL = re.compile(r"\s*///? +([A-Z][a-z]+)  +\S")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENCE_LINE = re.compile(rf"(//|#|/\*) {re.escape(LICENCE)}( \*/)?")
# Spelled apart so that this file passes its own check.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")


def lines_max(path):
    """A test file is a list of cases, which grows without a second job."""
    return TEST_LINES_MAX if path.name.endswith(("_test.cpp", "_test.py")) else LINES_MAX


def is_public(path, root):
    return relative(path, root).startswith("include/")


def label_problems(text):
    for number, line in enumerate(text.splitlines(), start=1):
        match = LABEL.match(line)
        if match and match.group(1) not in LABELS:
            yield number, f'"{match.group(1)}" is no label of public headers'


def width_problems(numbered_lines):
    for number, line in numbered_lines:
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"


def prose(text):
    """The lines of a page that can be broken: tables, and quoted programs and output, cannot."""
    is_quoted = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_quoted = not is_quoted
        elif not is_quoted and not line.startswith("|") and len(line.split()) > 1:
            yield number, line


def problems_of(text, lines_max=LINES_MAX):
    lines = text.splitlines()
    first = 2 if lines and lines[0].startswith("#!") else 1
    if len(lines) < first or not LICENCE_LINE.fullmatch(lines[first - 1]):
        yield first, f"this line must be the licence: {LICENCE}"
    if len(lines) > lines_max:
        yield lines_max + 1, f"{len(lines)} lines, at most {lines_max}: split the file"
    yield from width_problems(enumerate(lines, start=1))
    for number, line in enumerate(lines, start=1):
        if "\t" in line:
            yield number, "a tab"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if match := UNFINISHED.search(line):
            yield number, f'"{match.group()}" marks unfinished work'
    if text and not text.endswith("\n"):
        yield len(lines), "no line break at the end of the file"


def unlisted_headers(root, text):
    """C++ headers that the page of headers does not name. C headers have the same names."""
    for path in sorted((root / "include/berth").glob("*.hpp")):
        if f"`{path.name}`" not in text and f"<berth/{path.name}>" not in text:
            yield 1, f"{path.name} is not listed"


def problems(root):
    for path in code_files(root):
        text = read(path)
        for number, reason in problems_of(text, lines_max(path)):
            yield relative(path, root), number, reason
        for number, reason in label_problems(text) if is_public(path, root) else ():
            yield relative(path, root), number, reason
    for path in pages(root):
        for number, reason in width_problems(prose(read(path))):
            yield relative(path, root), number, reason
    page = root / HEADERS_PAGE
    if page.exists():
        for number, reason in unlisted_headers(root, read(page)):
            yield HEADERS_PAGE, number, reason


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    found = list(problems(parser.parse_args().root))
    for file, number, reason in found:
        print(f"{file}:{number}: {reason}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
