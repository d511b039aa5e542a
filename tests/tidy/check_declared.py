#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A jumbo build compiles several files as one, and so does not notice a file that lacks an include.
This finds the types and functions of the project, and the names of cuda.h, that a file of src
uses, but that neither it nor what it includes declares:

  check_declared.py --root CHECKOUT

It checks types and functions of namespaces whose names no other header declares. Prints
`file:line: reason` for each violation; exit status 1 if there is one.
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
# At the beginning of a line, and nowhere else, so not a member: `Result name(`.
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w:<>,*&\[\] ]*[ *&])([a-z]\w*)\(", re.MULTILINE)
CALLED = re.compile(r"(?<![.>:\w])([a-z]\w*)\(")
NOT_OF_THE_PROJECT = {"decltype", "read", "write"}
# Structures of another name are declared anywhere (CUstream_st).
CUDA_NAME = re.compile(r"\bCU(?:(?:DA)?_[A-Z0-9_]+|[a-z]\w+(?<!_st))\b")
CUDA_INCLUDE = re.compile(r"^\s*#\s*include\s*<cuda\w*\.h>", re.MULTILINE)


class Sources:
    def __init__(self, root):
        self.root = root
        self.headers = {}  # by the name that an include has
        for folder in HEADER_FOLDERS:
            for path in cpp_files(root, folder):
                if path.suffix in {".h", ".hpp"}:
                    self.headers[path.relative_to(root / folder).as_posix()] = path
        self.definers = {}
        self.functions = {}
        for path in self.headers.values():
            for name in DEFINITION.findall(self.code(path)):
                self.definers.setdefault(name, set()).add(path)
            for name in set(FUNCTION.findall(self.code(path))) - NOT_OF_THE_PROJECT:
                self.functions.setdefault(name, set()).add(path)

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

    @functools.cache
    def declares_function(self, path, name):
        """Also as a member, a variable or a parameter: all that a call by this name may mean."""
        return re.search(rf"[\w>*&,\])] *[*&]?\b{name}\b *[({{=;,)]", self.code(path)) is not None

    def problems(self, path):
        yield from self.undeclared_types(path)
        yield from self.undeclared_functions(path)
        yield from self.undeclared_cuda_names(path)

    def undeclared_functions(self, path):
        reached = self.reached(path)
        code = self.code(path)
        reported = set()
        for match in CALLED.finditer(code):
            name = match.group(1)
            definers = self.functions.get(name, set())
            if len(definers) != 1 or name in reported or definers <= reached:
                continue
            if any(self.declares_function(each, name) for each in reached):
                continue
            reported.add(name)
            yield self.problem(path, match.start(), f"{name}()", self.only(definers))

    def undeclared_cuda_names(self, path):
        match = CUDA_NAME.search(self.code(path))
        if match and not any(CUDA_INCLUDE.search(read(each)) for each in self.reached(path)):
            yield self.problem(path, match.start(), match.group(), "cuda.h")

    def problem(self, path, offset, name, definer):
        line = self.code(path).count("\n", 0, offset) + 1
        return (
            f"{relative(path, self.root)}:{line}: {name} is of {definer}, "
            "which this does not include"
        )

    def only(self, definers):
        (definer,) = definers
        return relative(definer, self.root)

    def undeclared_types(self, path):
        known = set().union(*(self.declared(each) for each in self.reached(path)))
        code = self.code(path)
        reported = set()
        for match in TYPE_NAME.finditer(code):
            name = match.group()
            definers = self.definers.get(name, set())
            if len(definers) != 1 or name in known or name in reported:
                continue
            reported.add(name)
            yield self.problem(path, match.start(), name, self.only(definers))


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
