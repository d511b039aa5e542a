#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth sim`: the places in the program that a finding names."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from sim_program import CASES, SimTest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.c")

PROGRAM = """\
from ctypes import *
cuda, context, memory = CDLL("libcuda.so.1"), c_void_p(), c_uint64()
fills, copies, size = c_void_p(), c_void_p(), 1 << 20
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(byref(memory), size)
cuda.cuStreamCreate(byref(fills), 1)
cuda.cuStreamCreate(byref(copies), 1)

def prefetch():
    cuda.cuMemsetD8Async(memory, 1, size, fills)

def consume(host):
    for call in [cuda.cuMemcpyDtoHAsync_v2]:
        call(host, memory, size, copies)

def main():
    prefetch()
    consume(create_string_buffer(size))
"""


def line_of(text):
    with open(SOURCE, encoding="utf-8") as file:
        return 1 + next(i for i, line in enumerate(file) if text in line)


class Native(SimTest):
    def places(self, outcome):
        return [
            [(frame["file"] and os.path.basename(frame["file"]), frame["line"], frame["function"])
             for frame in use["frames"] if frame["function"]]
            for use in outcome.report["findings"][0]["uses"]
        ]

    @unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
    def test_both_uses_have_their_file_and_line(self):
        outcome = self.cases("race")
        fill = line_of("CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));")
        copy = line_of("CHECK(cuMemcpyDtoHAsync(host, memory, kBytes, copies));")
        first, second = self.places(outcome)
        self.assertEqual(first[0], ("cases.c", fill, "produce"), outcome.story)
        self.assertEqual(second[0], ("cases.c", copy, "consume"), outcome.story)
        self.assertEqual([place[2] for place in first[:4]],
                         ["produce", "race", "do_case", "main"])
        self.assertRegex(outcome.err, rf"    first use   \S*cases.c:{fill} in produce\n"
                                      r"                \S*cases.c:\d+ in race\n")
        self.assertRegex(outcome.err, rf"    second use  \S*cases.c:{copy} in consume\n")

    def test_without_a_reader_of_debug_information_the_module_is_named(self):
        outcome = self.cases("race", env={"PATH": self.folder})
        self.assertRegex(outcome.err, r"first use   sim_command_cases\+0x[0-9a-f]+")

    @unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
    def test_what_nvcc_makes_for_a_kernel_is_left_out(self):
        outcome = self.cases("race-behind-stub")
        self.assertRegex(outcome.err, r"    first use   \S*cases.c:\d+ in race_behind_stub\n")

    def test_a_failed_call_is_told_with_the_nearest_line_of_the_program(self):
        package = os.path.join(self.folder, "site-packages")
        os.mkdir(package)
        with open(os.path.join(package, "deep.py"), "w", encoding="utf-8") as file:
            file.write("def call(function, argument):\n    function(argument)\n")
        program = self.write("failing.py", (
            f"import ctypes, sys; sys.path.insert(0, {package!r}); from deep import call\n"
            "cuda = ctypes.CDLL('libcuda.so.1')\n"
            "cuda.cuInit(0)\n"
            "call(cuda.cuCtxSetCurrent, ctypes.c_void_p(1))\n"))
        if not (3, 11) <= sys.version_info[:2] <= (3, 14):
            self.skipTest("frames are not known")
        outcome = self.sim(program=[sys.executable, program], cwd=self.folder)
        self.assertRegex(outcome.err, r"the first: cuCtxSetCurrent .*, at failing.py:4 in <module>")

    def test_call_sites_can_be_left_out(self):
        outcome = self.cases("race", options=("--call-sites", "off"))
        self.assertEqual([use["frames"] for use in outcome.report["findings"][0]["uses"]], [[], []])
        self.assertNotIn("first use", outcome.err)

    def test_one_mistake_at_two_places_is_two_findings(self):
        self.assert_findings(self.cases("race", "loop"), "race", "race")
        once = self.cases("race", "loop", options=("--call-sites", "off"))
        self.assert_findings(once, "race")

    @unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
    def test_a_leak_names_the_places_where_its_objects_were_made(self):
        outcome = self.cases("leak")
        finding = self.assert_findings(outcome, "leak")[0]
        made = {use["call"]: use["frames"][0]["line"] for use in finding["uses"]}
        self.assertEqual(made, {
            "1 allocation of 1048576 B": line_of("CHECK(cuMemAlloc(&memory, kBytes));"),
            "1 stream": line_of("CHECK(cuStreamCreate(&copies"),
            "1 event": line_of("CHECK(cuEventCreate(&filled"),
        }, outcome.story)
        self.assertEqual({use["does"] for use in finding["uses"]}, {"made"})
        self.assertRegex(outcome.err, r"    1 event made \S*cases.c:\d+ in prepare\n")

    @unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
    def test_a_stall_names_the_call_that_never_ends(self):
        outcome = self.cases("stall", options=("--set", "stall_ms=50"))
        use = self.assert_findings(outcome, "stall")[0]["uses"][0]
        self.assertEqual((use["call"], use["does"]), ("cuStreamWaitValue32", "waits"))
        self.assertEqual(use["frames"][0]["line"], line_of("CHECK(cuStreamWaitValue32(fills"))
        self.assertRegex(outcome.err, r"    cuStreamWaitValue32 waits \S*cases.c:\d+ in stall\n")

    def test_abort_prints_them_at_once(self):
        outcome = self.cases("race", options=("--on-finding", "abort"))
        self.assertRegex(outcome.err, r"  cuMemsetD8Async writes\n    \S*sim_command_cases\+0x")


def interpreters():
    """Each that is here, by its version."""
    found = {}
    for name in [sys.executable, "python3"] + [f"python3.{minor}" for minor in range(11, 16)]:
        path = shutil.which(name)
        if path is None:
            continue
        script = "import sys; print(*sys.version_info[:2])"
        run = subprocess.run([path, "-c", script], text=True, capture_output=True, check=False)
        if run.returncode == 0:
            found.setdefault(tuple(map(int, run.stdout.split())), path)
    return found


class Python(SimTest):
    def setUp(self):
        super().setUp()
        self.program = self.write("pipeline.py", PROGRAM + "\nmain()\n")

    def known_interpreters(self):
        known = {v: path for v, path in interpreters().items() if (3, 11) <= v <= (3, 14)}
        if not known:
            self.skipTest("no Python whose frames are known")
        return known.values()

    def sites(self, outcome):
        found = self.assert_findings(outcome, "race")[0]
        return [[(frame["file"], frame["line"], frame["function"]) for frame in use["frames"]
                 if "module" not in frame] for use in found["uses"]]

    def test_findings_name_lines_of_python(self):
        for python in self.known_interpreters():
            with self.subTest(python=python):
                outcome = self.sim(program=[python, self.program], cwd=self.folder)
                first, second = self.sites(outcome)
                self.assertEqual(first, [(self.program, 12, "prefetch"), (self.program, 19, "main"),
                                         (self.program, 22, "<module>")], outcome.story)
                self.assertEqual(second, [(self.program, 16, "consume"), (self.program, 20, "main"),
                                          (self.program, 22, "<module>")], outcome.story)
                self.assertIn("    first use   pipeline.py:12 in prefetch\n"
                              "                pipeline.py:19 in main\n", outcome.err)
                self.assertIn("    second use  pipeline.py:16 in consume\n", outcome.err)

    def test_behind_frames_of_packages_is_the_nearest_of_the_program(self):
        package = os.path.join(self.folder, "site-packages")
        os.mkdir(package)
        with open(os.path.join(package, "deep.py"), "w", encoding="utf-8") as file:
            file.write("def deep(call, depth):\n"
                       "    return deep(call, depth - 1) if depth else call()\n")
        text = PROGRAM.replace("    prefetch()\n", "    deep(cuda_fill, 30)\n")
        text = text.replace("def prefetch():", "from functools import partial\n"
                            "cuda_fill = partial(cuda.cuMemsetD8Async, memory, 1, size, fills)\n"
                            "def prefetch():")
        text = f"import sys; sys.path.insert(0, {package!r}); from deep import deep\n" + text
        program = self.write("deeper.py", text + "\nmain()\n")
        line = 1 + text.split("\n").index("    deep(cuda_fill, 30)")
        for python in self.known_interpreters():
            with self.subTest(python=python):
                outcome = self.sim(program=[python, program], cwd=self.folder)
                (found,) = self.assert_findings(outcome, "race")
                self.assertRegex(outcome.err, r"(?:site-packages/deep.py:2 in deep\n +){4}"
                                              rf"deeper.py:{line} in main\n +second use")

    def test_each_thread_has_its_own_frames(self):
        text = PROGRAM + (
            "\nimport threading\n"
            "def in_thread():\n"
            "    cuda.cuCtxSetCurrent(context)\n"
            "    prefetch()\n"
            "thread = threading.Thread(target=in_thread)\n"
            "thread.start()\n"
            "while thread.is_alive(): pass\n"
            "consume(create_string_buffer(size))\n"
        )
        program = self.write("threads.py", text)
        for python in self.known_interpreters():
            with self.subTest(python=python):
                first, second = self.sites(self.sim(program=[python, program]))
                names = [place[2] for place in first]
                self.assertEqual(names[:2], ["prefetch", "in_thread"])
                self.assertEqual([place[2] for place in second], ["consume", "<module>"])

    def test_names_that_are_not_ascii(self):
        text = PROGRAM.replace("prefetch", "vorausgrößen").replace("consume", "読む") + "\nmain()\n"
        program = self.write("größe.py", text)
        for python in self.known_interpreters():
            with self.subTest(python=python):
                first, second = self.sites(self.sim(program=[python, program]))
                self.assertEqual(first[0], (program, 12, "vorausgrößen"))
                self.assertEqual(second[0][2], "読む")

    def test_another_interpreter_does_without(self):
        """One of an unknown version: it has native frames alone, and the finding is the same."""
        for version, python in interpreters().items():
            if version < (3, 11):
                first, _ = self.sites(self.sim(program=[python, self.program]))
                self.assertEqual(first, [])


if __name__ == "__main__":
    unittest.main()
