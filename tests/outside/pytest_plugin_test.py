#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plug-in for pytest, under `berth sim` and without: SCRIPT BERTH PLUGIN LIBCUDA."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import outside

BERTH, PLUGIN, LIBCUDA = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
LIBRARIES = os.path.dirname(LIBCUDA)

TESTS = """\
import sys
import pytest
from ctypes import *

size = 1 << 20

@pytest.fixture(scope="module")
def machine():
    cuda, context, memory = CDLL("libcuda.so.1"), c_void_p(), c_uint64()
    fills, copies = c_void_p(), c_void_p()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(byref(memory), size)
    cuda.cuStreamCreate(byref(fills), 1)
    cuda.cuStreamCreate(byref(copies), 1)
    def run(waits):
        cuda.cuMemsetD8Async(memory, 1, size, fills)
        if waits:
            cuda.cuStreamSynchronize(fills)
        cuda.cuMemcpyDtoHAsync_v2(create_string_buffer(size), memory, size, copies)
        cuda.cuCtxSynchronize()
    return run

def test_right(machine):
    machine(True)

def test_race(machine):
    machine(False)

@pytest.mark.allow_findings("race: *cuMemcpyDtoHAsync", reason="the bytes are not used")
def test_allowed(machine):
    machine(False)

@pytest.mark.allow_findings("leak", reason="another kind")
def test_another_is_allowed(machine):
    machine(False)

def test_race_and_failure(machine):
    machine(False)
    assert 1 == 2

def test_right_again(machine):
    machine(True)
"""

RUNS = """\
import sys
from ctypes import *

COUNT = '''
from ctypes import *
cuda, count = CDLL("libcuda.so.1"), c_int()
code = cuda.cuInit(0)
cuda.cuDeviceGetCount(byref(count))
print(code, count.value)
'''

def test_devices(simulated):
    run = simulated(sys.executable, "-c", COUNT, devices=3)
    assert (run.exit_code, run.out, run.findings) == (0, "0 3\\n", [])

def test_settings(simulated):
    run = simulated(sys.executable, "-c", COUNT, settings={"devices": 5})
    assert run.out == "0 5\\n"

def test_finding(simulated):
    run = simulated(sys.executable, "race.py", seeds=2)
    assert run.exit_code == 1
    assert [found["seeds"] for found in run.findings] == [[1, 2]]
"""

NATIVE = """\
#include <stddef.h>
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuStreamCreate(void**, unsigned);
int cuMemsetD8Async(unsigned long long, unsigned char, size_t, void*);
int cuCtxSynchronize(void);
int main(void) {
  void *context, *one, *other;
  unsigned long long memory;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuMemAlloc_v2(&memory, 64);
  cuStreamCreate(&one, 1);
  cuStreamCreate(&other, 1);
  cuMemsetD8Async(memory, 1, 64, one);
  cuMemsetD8Async(memory, 2, 64, other);  /* line 19 */
  return cuCtxSynchronize();
}
"""

OF_NATIVE = """\
import subprocess
import pytest

@pytest.mark.allow_findings("native.c:19 in main", reason="the bytes are not used")
def test_allowed():
    subprocess.run(["./native"], check=True)

@pytest.mark.allow_findings("native.c:12", reason="another line")
def test_another_is_allowed():
    subprocess.run(["./native"], check=True)
"""

OF_PAGE = """\
import pytest
from test_base import machine

def warm_up(machine):
    machine(False)

def work(machine):
    machine(False)

@pytest.mark.PAGE
def test_allowed(machine):
    warm_up(machine)

@pytest.mark.PAGE
def test_another_place_is_not_allowed(machine):
    work(machine)
"""

LOST = """\
import json
import os
import pytest

def leave(line):
    with open(os.environ["BERTH_SIM_FINDINGS"], "a") as file:
        file.write(line + "\\n")

@pytest.mark.allow_findings("*", reason="all of them")
def test_a_finding_that_was_not_kept():
    leave(json.dumps({"record": "more", "pid": 1, "count": 1}))

@pytest.mark.allow_findings("*", reason="all of them")
def test_a_line_that_has_no_end():
    leave('{"record":"find')

def test_another_record():
    leave(json.dumps({"record": "inner_command", "pid": 1}))
"""

UNREASONED = """\
import pytest

@pytest.mark.allow_findings("race")
def test_nothing():
    pass
"""


def race_of_the_page():
    page = os.path.join(os.environ["BERTH_SOURCE_ROOT"], "docs", "simulator.md")
    with open(page, encoding="utf-8") as file:
        return re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)


def mark_of_the_page():
    page = os.path.join(os.environ["BERTH_SOURCE_ROOT"], "docs", "simulator.md")
    with open(page, encoding="utf-8") as file:
        (arguments,) = re.findall(r"`allow_findings(\([^`]*\))`", file.read())
    return f"allow_findings{arguments}"


def compile_native(folder):
    source = os.path.join(folder, "native.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(NATIVE)
    program = os.path.join(folder, "native")
    ignored = "-Wl,--unresolved-symbols=ignore-in-shared-libs"
    command = ["cc", "-g", "-O0", source, LIBCUDA, ignored, "-o", program]
    return subprocess.run(command, check=False).returncode == 0


class Plugin(unittest.TestCase):
    def run_pytest(self, text, command=()):
        with tempfile.TemporaryDirectory() as folder:
            files = {"test_it.py": text, "race.py": race_of_the_page(), "test_base.py": TESTS}
            for name, content in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(content)
            path = [os.path.dirname(PLUGIN), os.environ["PYTHONPATH"]]
            if "./native" in text and not compile_native(folder):
                self.skipTest("no C compiler")
            env = os.environ | {
                "BERTH_COMMAND": BERTH,
                "LD_LIBRARY_PATH": LIBRARIES,
                "PYTHONPATH": os.pathsep.join(path),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            }
            done = subprocess.run(
                [*command, sys.executable, "-B", "-m", "pytest", "-p", "berth_sim", "-rA"]
                + ["-p", "no:cacheprovider", "test_it.py"],
                cwd=folder, env=env, text=True, capture_output=True, check=False, timeout=240)
        story = done.stdout + done.stderr
        found = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", story, re.M)
        results = {name: result for result, name in found}
        return done.returncode, results, story

    def assert_outcome(self, command):
        code, results, story = self.run_pytest(TESTS, command)
        self.assertEqual(results, {
            "test_right": "PASSED",
            "test_race": "FAILED",
            "test_allowed": "PASSED",
            "test_another_is_allowed": "FAILED",
            "test_race_and_failure": "FAILED",
            "test_right_again": "PASSED",
        }, story)
        self.assertEqual(code, 1, story)
        self.assertIn("findings of the simulated driver", story)
        self.assertIn("assert 1 == 2", story)
        self.assertRegex(story, r"first use: \S*test_it.py:18 in run")
        return story

    def test_a_finding_fails_its_test_and_no_other(self):
        self.assert_outcome(())

    def test_under_the_command(self):
        story = self.assert_outcome((BERTH, "sim", "--"))
        self.assertIn("berth sim: 4 findings\n", story)  # that of the mark among them

    def test_a_test_runs_programs_on_machines_of_their_own(self):
        code, results, story = self.run_pytest(RUNS)
        self.assertEqual((code, set(results.values())), (0, {"PASSED"}), story)
        self.assertEqual(len(results), 3, story)

    def test_a_line_of_native_code_is_allowed_as_the_command_ignores_it(self):
        code, results, story = self.run_pytest(OF_NATIVE)
        self.assertEqual(
            results, {"test_allowed": "PASSED", "test_another_is_allowed": "FAILED"}, story)
        self.assertIn("first use: native.c:18 in main\n", story)
        self.assertEqual(code, 1, story)

    def test_the_mark_of_the_page_allows_a_place(self):
        code, results, story = self.run_pytest(OF_PAGE.replace("PAGE", mark_of_the_page()))
        self.assertEqual(results, {
            "test_allowed": "PASSED", "test_another_place_is_not_allowed": "FAILED"}, story)
        self.assertEqual(code, 1, story)

    def test_findings_that_were_lost_fail_a_test_whatever_it_allows(self):
        _, results, story = self.run_pytest(LOST)
        self.assertEqual(results, {
            "test_a_finding_that_was_not_kept": "FAILED",
            "test_a_line_that_has_no_end": "FAILED",
            "test_another_record": "PASSED",
        }, story)

    def test_a_mark_without_a_reason_is_refused(self):
        code, _, story = self.run_pytest(UNREASONED)
        self.assertNotIn(code, (0, 1), story)
        self.assertIn("allow_findings needs a pattern and a reason", story)


if __name__ == "__main__":
    outside.run("pytest")
