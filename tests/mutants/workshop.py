# SPDX-License-Identifier: Apache-2.0
"""A copy of the checkout that bugs are planted in, and its build folder."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

# Quick to build after a change, and quick enough to run. A mutant may leave a variable unused.
MESON_OPTIONS = (
    "-Dbuildtype=plain",
    "-Doptimization=1",
    "-Ddebug=false",
    "-Dwerror=false",
)
# Suites of which each file is a program.
PROGRAM_A_FILE = ("adapters", "replay")
# Suites whose program is in their folder.
PROGRAM_IN_FOLDER = ("pjrt", "tool")
# Programs in C, by their first file: each is a suite of its own.
PROGRAM_IN_C = {"capi/capi": "tests/capi/capi_c_test"}
# What a suite loads at run time.
LOADED_BY = {"pjrt": ("pjrt-libraries",), "capi": ("capi-libraries",)}
# Programs whose simulator is configured from outside.
SIMULATED = {
    "adapters/torch_allocator": "devices=2,memory=1GiB,progress=manual",
    "capi/capi": "devices=2,memory=256MiB,progress=manual",
}


class DoesNotBuild(Exception):
    """The message is what the compiler said first."""


@dataclass(frozen=True)
class Outcome:
    failed: str | None  # the first test case that failed; None: all that ended passed
    seconds: float
    ended: bool = True  # within the time it had


def is_copied(path):
    """Of the top level: what is built and what is nobody's is left out."""
    return path.name != "build" and not path.name.startswith(".")


def files_of(root):
    for top in filter(is_copied, root.iterdir()):
        for path in [top, *top.rglob("*")] if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root)


def program_of(step):
    """From the build folder."""
    if step in PROGRAM_IN_C:
        return PROGRAM_IN_C[step]
    suite = step.partition("/")[0]
    if suite in PROGRAM_IN_FOLDER:
        return f"tests/{suite}/{suite}_test"
    return f"tests/{step if suite in PROGRAM_A_FILE else suite}_test"


def failed_test_case(output):
    """The test case before doctest's first error; None where it names no error."""
    name = None
    for line in output.splitlines():
        if match := re.match(r"TEST CASE: +(.*)", line):
            name = match.group(1)
        elif re.search(r"\bERROR: ", line):
            return name
    return None


class Workshop:
    """`jumbo`: many files are compiled as one: quicker where a bug is in a header."""

    def __init__(self, root, folder, toolkit_include, jobs, jumbo=False):
        self.root = root
        self.source = folder / "source"
        self.build = folder / "build"
        self.toolkit_include = toolkit_include
        self.jobs = jobs
        self.unity = "on" if jumbo else "off"

    def prepare(self):
        """Brings the copy up to date. What is the same stays as it is, and is not built again."""
        wanted = set(files_of(self.root))
        if self.source.is_dir():
            for path in set(files_of(self.source)) - wanted:
                (self.source / path).unlink()
        for path in wanted:
            copy = self.source / path
            text = (self.root / path).read_bytes()
            if not copy.is_file() or copy.read_bytes() != text:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / path, copy)
        options = [
            *MESON_OPTIONS,
            f"-Dunity={self.unity}",
            f"-Dtoolkit_include={self.toolkit_include}",
        ]
        set_up_with = self.build / "options"
        if set_up_with.is_file() and set_up_with.read_text() == "\n".join(options):
            return
        shutil.rmtree(self.build, ignore_errors=True)
        # A header that is as it was before is built anew as well: a cache makes that quick.
        cache = "ccache " if shutil.which("ccache") else ""
        environment = {**os.environ, "CC": cache + "gcc", "CXX": cache + "g++"}
        command = ["meson", "setup", self.build, self.source, *options]
        subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)
        set_up_with.write_text("\n".join(options))

    def make(self, steps):
        """Builds the programs of these suites, or of one file of them.
        Errors  DoesNotBuild."""
        targets = dict.fromkeys(map(program_of, steps))
        for step in steps:
            targets.update(dict.fromkeys(LOADED_BY.get(step.partition("/")[0], ())))
        done = subprocess.run(
            ["ninja", "-C", self.build, f"-j{self.jobs}", *targets],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = re.search(r".*\berror: .*|.*undefined reference.*", done.stdout)
            raise DoesNotBuild(said.group() if said else done.stdout[-400:] + done.stderr)

    def test(self, suite, seconds_max):
        """Runs a suite, or one file of it, until a test fails."""
        command = [self.build / program_of(suite), "--no-version", "--no-intro", "--abort-after=1"]
        simulated = {"BERTH_SIM": SIMULATED[suite]} if suite in SIMULATED else {}
        is_program = suite in PROGRAM_IN_C
        suite, _, file = suite.partition("/")
        if file and not is_program and suite not in PROGRAM_A_FILE:
            command.append(f"--source-file=*/{file}_test.cpp")
        traces = (self.root / "bench/traces", self.root.parent / "shared/traces")
        environment = {
            **os.environ,
            **simulated,
            "BERTH_DRIVER": "sim",
            "BERTH_TEST_TRACES": ":".join(str(folder) for folder in traces if folder.is_dir()),
            "BERTH_SOURCE_ROOT": str(self.source),
            "BERTH_SIM_LIBRARIES": str(self.build / "src/sim/exports"),
            "BERTH_PJRT_PLUGINS": str(self.build / "tests/pjrt"),
            "LD_LIBRARY_PATH": str(self.build / "src"),
        }
        begin = time.monotonic()
        # Tests have children of their own, which are to end with them.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=max(seconds_max, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Outcome(None, time.monotonic() - begin, ended=False)
        seconds = time.monotonic() - begin
        if process.returncode == 0:
            return Outcome(None, seconds)
        return Outcome(failed_test_case(output) or f"exit status {process.returncode}", seconds)

    def planted(self, mutant):
        """A context in which the bug is in the copy."""
        return Planted(self.source / mutant.file, mutant)


class Planted:
    def __init__(self, path, mutant):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.broken = mutant.broken(self.text)

    def __enter__(self):
        self.path.write_text(self.broken, encoding="utf-8")

    def __exit__(self, *_):
        self.path.write_text(self.text, encoding="utf-8")
