# SPDX-License-Identifier: Apache-2.0
"""The files that the tidy checks read, and their text without comments and literals."""

import pathlib
import re

CODE_FOLDERS = tuple("include src adapters python tests bench campaign docs/examples".split())
CODE_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".py", ".sh", ".in", ".cmake", ".map"}
CODE_NAMES = {"meson.build", "meson_options.txt", "CMakeLists.txt"}
CPP_SUFFIXES = {".c", ".h", ".cpp", ".hpp"}
TOP_LEVEL_CODE = ("meson.build", "meson_options.txt", "run", ".ci/run")

# Comments, raw strings, strings and characters, whichever begins first.
_NOT_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'
    """,
    re.DOTALL | re.VERBOSE,
)


def is_code(path):
    if path.suffix in CODE_SUFFIXES or path.name in CODE_NAMES:
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def code_files(root):
    """Every source, build and script file of the checkout at `root`, in a fixed order."""
    files = [root / name for name in TOP_LEVEL_CODE if (root / name).is_file()]
    for folder in CODE_FOLDERS:
        files += (
            path
            for path in (root / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and is_code(path)
        )
    return sorted(files)


def pages(root):
    """Every page in Markdown."""
    files = set(root.glob("*.md"))
    for folder in ("docs", *CODE_FOLDERS):
        files.update((root / folder).rglob("*.md"))
    return sorted(files)


def cpp_files(root, folder):
    return [path for path in sorted((root / folder).rglob("*")) if path.suffix in CPP_SUFFIXES]


def read(path):
    return path.read_text(encoding="utf-8")


def without_comments_and_literals(text):
    """The same text, line for line, with comments and literals emptied."""
    return _NOT_CODE.sub(lambda match: "\n" * match.group().count("\n") or " ", text)


def relative(path, root):
    return pathlib.Path(path).relative_to(root).as_posix()
