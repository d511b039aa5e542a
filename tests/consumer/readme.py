# SPDX-License-Identifier: Apache-2.0
"""The program that README.md shows."""
import re

LINES_MAX = 20
# What it prints when everything worked.
OUTPUT = "the same bytes"


def example(readme):
    """The one ```cpp block of the file: a whole program. ValueError says what is wrong with it."""
    text = readme.read_text(encoding="utf-8")
    blocks = re.findall(r"^```cpp\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if len(blocks) != 1:
        raise ValueError(f"README.md has {len(blocks)} ```cpp blocks, and must have exactly one")
    lines = blocks[0].count("\n")
    if lines > LINES_MAX:
        raise ValueError(f"the example of README.md has {lines} lines, at most {LINES_MAX}")
    if not re.search(r"^int main\(", blocks[0], re.MULTILINE):
        raise ValueError("the example of README.md is no whole program: it has no main function")
    return blocks[0]
