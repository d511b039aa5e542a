# SPDX-License-Identifier: Apache-2.0
"""The programs that the documentation shows."""

import re

LINES_MAX = 30
# What the program of README.md prints if everything worked.
OUTPUT = "the same bytes"


def example(page):
    """The one ```cpp block of the page that is a whole program. ValueError: there is not one."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```cpp\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block for block in blocks if "int main(" in block]
    if len(blocks) != 1:
        raise ValueError(f"{page} has {len(blocks)} programs in ```cpp, and must have exactly one")
    lines = blocks[0].count("\n")
    if lines > LINES_MAX:
        raise ValueError(f"the example of {page} has {lines} lines, at most {LINES_MAX}")
    if not re.search(r"^int main\(", blocks[0], re.MULTILINE):
        raise ValueError(f"the example of {page} is no whole program: it has no main function")
    return blocks[0]
