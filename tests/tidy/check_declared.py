#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A jumbo build compiles several files as one, and so does not notice a file that lacks an include.
This finds the types of the project that a file of src uses, but that neither it nor what it
includes declares:

  check_declared.py --root CHECKOUT

It checks types of namespaces whose names no other header defines. Prints `file:line: reason` for
each violation; exit status 1 if there is one.
"""

import argparse
import functools
import pathlib
import re
import sys

from source_tree import cpp_files, read, relative, without_comments_and_literals

HEADER_FOLDERS = ("include", "src")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# At the beginning of a line, because berth does not indent namespaces.
DEFINITION = re.compile(
    r"^(?:class|struct|enum class|enum|union)\s+(?:[A-Z_]+(?:\([^)]*\))?\s+)*([A-Z]\w*)"
    r"(?:\s+final)?\s*[:{]",
    re.MULTILINE,
)
# Of a namespace, a class or a function, by a friend, as another name, or as a parameter.
DECLARATION = re.compile(
    r"\b(?:class|struct|enum|union|using|typename)(?:\.\.\.)?\s+"
    r"(?:[A-Z_]+(?:\([^)]*\))?\s+)*([A-Z]\w*)\b"
)
TYPE_NAME = re.compile(r"(?<![.>:\w])[A-Z]\w*\b")


class Sources:
    def __init__(self, root):
        self.root = root
        self.headers = {}  # by the name that an include has
        for folder in HEADER_FOLDERS:
            for path in cpp_files(root, folder):
                if path.suffix in {".h", ".hpp"}:
                    self.headers[path.relative_to(root / folder).as_posix()] = path
        self.definers = {}
        for path in self.headers.values():
            for name in DEFINITION.findall(self.code(path)):
                self.definers.setdefault(name, set()).add(path)

    @functools.cache
    def code(self, path):
        return without_comments_and_literals(read(path))

    @functools.cache
    def included(self, path):
        names = INCLUDE.findall(read(path))
        return [self.headers[name] for name in names if name in self.headers]

    def reached(self, path):
        """The file and all that it includes."""
        found = {path}
        pending = [path]
        while pending:
            for header in self.included(pending.pop()):
                if header not in found:
                    found.add(header)
                    pending.append(header)
        return found

    @functools.cache
    def declared(self, path):
        return set(DECLARATION.findall(self.code(path)))

    def problems(self, path):
        known = set().union(*(self.declared(each) for each in self.reached(path)))
        code = self.code(path)
        reported = set()
        for match in TYPE_NAME.finditer(code):
            name = match.group()
            definers = self.definers.get(name, set())
            if len(definers) != 1 or name in known or name in reported:
                continue
            reported.add(name)
            (definer,) = definers
            line = code.count("\n", 0, match.start()) + 1
            yield (
                f"{relative(path, self.root)}:{line}: {name} is of "
                f"{relative(definer, self.root)}, which this does not include"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root.resolve()
    sources = Sources(root)
    found = [problem for path in cpp_files(root, "src") for problem in sources.problems(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
