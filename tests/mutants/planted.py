# SPDX-License-Identifier: Apache-2.0
"""The planted bugs: mutants.toml as data, and whether each still fits the sources."""

import pathlib
import tomllib
from dataclasses import dataclass

LIST = pathlib.Path(__file__).with_name("mutants.toml")


class DoesNotApply(Exception):
    """The sources have moved on: the message names the mutant and the text."""


@dataclass(frozen=True)
class Mutant:
    name: str  # what the bug is
    file: str
    old: str
    new: str
    seen_by: tuple[
        str, ...
    ]  # "memory/sleep": tests/memory/sleep_test.cpp (or .c); "model": all of that suite

    def broken(self, text):
        """The text of the file with the bug in it."""
        found = text.count(self.old)
        if found != 1:
            raise DoesNotApply(
                f'"{self.name}": {found} times instead of once in {self.file}:\n{self.old}'
            )
        return text.replace(self.old, self.new)


def read(path=LIST):
    with path.open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    return [Mutant(**{**entry, "seen_by": tuple(entry["seen_by"])}) for entry in entries]


def problems(mutants, root):
    """What is wrong with the list, in the checkout at `root`: one text for each problem."""
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        if names.count(mutant.name) > 1:
            yield f'"{mutant.name}": there are two of that name'
        if mutant.old == mutant.new:
            yield f'"{mutant.name}" changes nothing'
        for suite in mutant.seen_by:
            files = [f"{suite}_test.cpp", f"{suite}_test.c"] if "/" in suite else [suite]
            if not any((root / "tests" / file).exists() for file in files):
                yield f'"{mutant.name}": there is no tests/{suite}'
        if not mutant.seen_by:
            yield f'"{mutant.name}" is seen by nobody'
        if not (root / mutant.file).is_file():
            yield f'"{mutant.name}": there is no {mutant.file}'
            continue
        try:
            mutant.broken((root / mutant.file).read_text(encoding="utf-8"))
        except DoesNotApply as problem:
            yield str(problem)
