# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest: a race that the simulated CUDA driver finds fails the test that has it.

    berth sim -- pytest -p berth_sim tests/

Findings count for the test during which they occur, in the process of pytest and in programs that
the test starts. Those of fixtures count for the test that sets them up or tears them down.

    @pytest.mark.allow_findings("race: *in warm_up", reason="the first batch is thrown away")
    def test_training(): ...

accepts findings that the pattern describes, as `berth sim --ignore` does: it is searched for in the
line of a finding together with the lines of its call sites, and * stands for any text, also over
several lines. The mark is for the test alone: the command counts the findings unless its own file
ignores them. Findings that a process did not keep fail a test whatever its mark says.

A machine is chosen before a process first calls the driver, so a test that needs one of its own
runs a program:

    def test_out_of_memory(simulated):
        run = simulated("python", "train.py", devices=2, faults="cuMemAlloc@3=out_of_memory")
        assert run.exit_code == 0 and not run.findings
"""

import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

VARIABLE = "BERTH_SIM_FINDINGS"
LINES_MAX = 4

# In the names of files that are not the program's: of packages, Python, the C++ library and nvcc.
OF_OTHERS = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/include/c++/",
    "/cuda_runtime",
    "/tmpxft_",
)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a program did under `berth sim`."""

    exit_code: int
    findings: list  # as `berth sim --json` has them
    out: str
    err: str


class Findings:
    """The file in which processes leave their findings, read as it grows."""

    def __init__(self, path):
        self.path = path
        self.read_to = 0

    def new(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.read_to)
                text = file.read()
        except FileNotFoundError:
            return []
        complete = text.rfind(b"\n") + 1
        self.read_to += complete
        records = [self.record_of(line) for line in text[:complete].splitlines() if line]
        for record in records:
            if record["record"] == "more":
                record["text"] = "a process did not keep all of its findings: there were too many"
        return [record for record in records if record["record"] in ("finding", "more")]

    @staticmethod
    def record_of(line):
        try:
            return json.loads(line)
        except ValueError:
            text = "a line of a process that was killed cannot be read, and may be a finding"
            return {"record": "more", "text": text}


@functools.lru_cache(maxsize=None)
def source_of(module, offset):
    """Function, file and line, from the debug information; None for what is not known."""
    command = ["addr2line", "-f", "-C", "-e", module, hex(offset)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None, None, 0
    function, _, rest = done.stdout.partition("\n")
    known = re.match(r"(.+):([1-9]\d*)", rest)
    file, line = (known[1], int(known[2])) if known else (None, 0)
    return None if function in ("", "??") else function, file, line


def with_source(frame):
    """The frame of native code, with its line, as `berth sim` prints it."""
    if "module" not in frame:
        return frame
    function, file, line = source_of(frame["module"], frame["offset"])
    known = {"function": function or frame["function"]}
    return frame | known | ({"file": os.path.normpath(file), "line": line} if file else {})


def is_of_start(frame):
    """Whether the frame is of the start of a program, which says nothing."""
    name = os.path.basename(frame.get("module", ""))
    return name.startswith(("libc.so", "ld-linux")) or frame["function"] == "_start"


def is_of_compiler(frame):
    """Whether nvcc has put the frame between a launch of a kernel and the runtime."""
    function = frame["function"]
    starts = ("__device_stub__", "__cudaLaunchKernel")
    return function.startswith(starts) or "cudaLaunchKernel<" in function


def is_of_program(frame):
    file = frame.get("file", "")
    if file.startswith("<") or any(part in file for part in OF_OTHERS):
        return False
    return "/libstdc++.so" not in frame.get("module", "")


def place(frame):
    if "file" in frame:
        file = os.path.relpath(frame["file"])
        file = frame["file"] if file.startswith("..") else file
        function = f" in {frame['function']}" if frame["function"] else ""
        return f"{file}:{frame['line']}{function}"
    name = f" ({frame['function']})" if frame["function"] else ""
    return f"{os.path.basename(frame['module'])}+{frame['offset']:#x}{name}"


def places(use):
    """Of Python's frames alone, if there are any. Behind four that are not of the program follows
    the nearest that is, as in the report of `berth sim`."""
    frames = [frame for frame in use["frames"] if "module" not in frame]
    native = [with_source(frame) for frame in use["frames"]] if not frames else []
    frames += [frame for frame in native if not is_of_start(frame) and not is_of_compiler(frame)]
    shown = frames[:LINES_MAX]
    if not any(map(is_of_program, shown)):
        shown += [frame for frame in frames[LINES_MAX:] if is_of_program(frame)][:1]
    return [place(frame) for frame in shown]


def lines_of(finding):
    lines = [finding["text"]]
    for title, use in zip(("first use", "second use"), finding.get("uses", ())):
        lines += [f"  {title}: {line}" for line in places(use)]
    return lines


def is_allowed(finding, patterns):
    if finding["record"] == "more":
        return False
    lines = [finding["text"], *(line for use in finding["uses"] for line in places(use))]
    text = "\n".join(lines)
    return any(pattern.search(text) for pattern in patterns)


def patterns_of(item):
    patterns = []
    for mark in item.iter_markers("allow_findings"):
        if not mark.args or not mark.kwargs.get("reason"):
            raise pytest.UsageError(f"{item.nodeid}: allow_findings needs a pattern and a reason")
        for text in mark.args:
            parts = map(re.escape, text.split("*"))
            patterns.append(re.compile(".*".join(parts), re.DOTALL))
    return patterns


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "allow_findings(pattern, ..., reason): findings of the simulated driver that the test may "
        "have; * stands for any text",
    )
    config.berth_sim_folder = None
    if VARIABLE not in os.environ:
        config.berth_sim_folder = tempfile.mkdtemp(prefix="berth-sim-")
        os.environ[VARIABLE] = os.path.join(config.berth_sim_folder, "findings")
        settings = os.environ.get("BERTH_SIM", "")
        if "call_sites" not in settings:
            os.environ["BERTH_SIM"] = ",".join(filter(None, (settings, "call_sites=on")))
    config.berth_sim_findings = Findings(os.environ[VARIABLE])
    config.berth_sim_findings.new()


def pytest_unconfigure(config):
    if config.berth_sim_folder is not None:
        del os.environ[VARIABLE]
        shutil.rmtree(config.berth_sim_folder, ignore_errors=True)


def pytest_collection_modifyitems(items):
    for item in items:
        patterns_of(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    patterns = patterns_of(item)
    found = [f for f in item.config.berth_sim_findings.new() if not is_allowed(f, patterns)]
    if not found:
        return
    text = "\n".join(line for finding in found for line in lines_of(finding))
    if report.outcome == "failed":
        report.sections.append(("findings of the simulated driver", text))
        return
    report.outcome = "failed"
    report.longrepr = f"findings of the simulated driver:\n{text}"


@pytest.fixture
def simulated(tmp_path):
    """A function that runs a program under `berth sim`: simulated(*program, devices=2, memory=...,
    faults=..., seeds=..., seed=..., settings={...}) -> Run. Its findings do not fail the test."""
    berth = os.environ.get("BERTH_COMMAND") or shutil.which("berth")
    if berth is None:
        pytest.skip("no command berth")

    def run(*program, settings=None, timeout=None, **options):
        report = tmp_path / "berth-sim.json"
        report.unlink(missing_ok=True)
        command = [berth, "sim", "--json", str(report)]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        for key, value in (settings or {}).items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(
            [*command, "--", *map(str, program)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if not report.exists() or report.stat().st_size == 0:
            raise RuntimeError(done.stderr.strip())
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
        return Run(done.returncode, findings, done.stdout, done.stderr)

    return run
