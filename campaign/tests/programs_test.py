#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of a campaign where what they need is missing, broken, or slow."""

import json
import pathlib
import shutil
import subprocess
import sys
from unittest import mock

import campaign_case
from campaign_case import CAMPAIGN, CampaignCase

import kernels

TORCH_SCRIPTS = ("torch_copies.py", "torch_replays.py", "torch_training.py")


class ScriptsTest(CampaignCase):
    def setUp(self):
        super().setUp()
        shutil.copytree(
            CAMPAIGN, self.bundle / "scripts", ignore=shutil.ignore_patterns("tests", "fakes")
        )
        (self.bundle / "modules").mkdir()
        self.environment |= {"PYTHONPATH": str(self.bundle / "modules"), "PYTHONFAULTHANDLER": "1"}

    def add_module(self, name, text):
        (self.bundle / f"modules/{name}.py").write_text(text, encoding="utf-8")

    def run_script(self, name, *arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-B", self.bundle / "scripts" / name, *arguments],
            capture_output=True,
            text=True,
            env=self.environment | environment,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_without_pytorch_or_cupy_they_are_skipped(self):
        for module in ("torch", "cupy"):
            self.add_module(module, f"raise ImportError('no {module} here')\n")
        for name in (*TORCH_SCRIPTS, "cupy_arrays.py"):
            status, rows, said = self.run_script(name)
            self.assertEqual((status, rows), (77, []), said)
            self.assertRegex(said, "no (torch|cupy) here")

    def test_a_pytorch_that_is_broken_is_said(self):
        self.add_module(
            "torch", "raise OSError('libcudart.so.12: cannot open shared object file')\n"
        )
        for name in TORCH_SCRIPTS:
            status, rows, said = self.run_script(name)
            self.assertEqual(status, 1)
            self.assertIn("libcudart.so.12", said + json.dumps(rows))

    def test_a_pytorch_that_hangs_takes_no_more_than_the_limit(self):
        self.add_module("torch", "import time\ntime.sleep(1000)\n")
        for name, processes in (("torch_replays.py", 2), ("torch_training.py", 3)):
            status, rows, _ = self.run_script(name, BERTH_CAMPAIGN_LIMIT="2")
            self.assertEqual(status, 1)
            self.assertEqual([row["outcome"] for row in rows], ["hung"] * processes)
            self.assertIn("modules/torch.py", rows[0]["text"])

    def add_benchmarks(self, *scripts):
        for letter, script in zip("abcdefghijklmnop", scripts):
            self.add_program(f"bench/bench_{letter}", script)
        shutil.copy2(CAMPAIGN.parent / "bench/report.py", self.bundle / "bench")
        (self.bundle / "bench/traces").mkdir()
        (self.bundle / "bench/traces/a.csv").touch()

    def test_a_benchmark_that_hangs_leaves_time_for_the_others(self):
        self.add_benchmarks("sleep 1000", *["exit 3"] * 15)
        status, rows, _ = self.run_script("bench_figures.py", BERTH_CAMPAIGN_LIMIT="12")
        self.assertEqual(status, 1)
        self.assertEqual([row["outcome"] for row in rows[:2]], ["hung", "failed"])

    def test_a_benchmark_that_no_time_is_left_for_is_noted(self):
        self.add_benchmarks("sleep 1000", "exit 1")
        status, rows, _ = self.run_script("bench_figures.py", BERTH_CAMPAIGN_LIMIT="1.5")
        self.assertEqual(status, 1)
        self.assertEqual([row["outcome"] for row in rows], ["hung", "cut short"])

    def test_a_benchmark_that_prints_no_json_is_said(self):
        self.add_benchmarks("echo {", "exit 3")
        status, rows, _ = self.run_script("bench_figures.py")
        self.assertEqual(status, 1)
        self.assertEqual([row["outcome"] for row in rows], ["failed", "failed"])

    def test_a_bundle_that_lacks_benchmarks_traces_or_tests_is_said(self):
        self.add_benchmarks("exit 77")
        self.assertEqual(self.run_script("bench_figures.py")[0], 0)
        (self.bundle / "bench/traces/a.csv").unlink()
        status, _, said = self.run_script("bench_figures.py")
        self.assertEqual(status, 1)
        self.assertIn("no trace in ", said)
        (self.bundle / "tests").mkdir()
        (self.bundle / "tests/list").touch()
        status, _, said = self.run_script("hardware_tests.py")
        self.assertEqual(status, 1)
        self.assertIn("no such test in ", said)

    def test_each_hardware_test_has_its_limit(self):
        tests = {"one": "exit 0", "two": "kill -9 $$", "three": "exec sleep 1000", "four": "exit 0"}
        lines = [f"{name}\tsh -c '{script}'\n" for name, script in tests.items()]
        (self.bundle / "tests").mkdir()
        (self.bundle / "tests/list").write_text("".join(lines), encoding="utf-8")
        status, rows, _ = self.run_script("hardware_tests.py", BERTH_CAMPAIGN_LIMIT="3")
        self.assertEqual(status, 1)
        self.assertEqual([row["outcome"] for row in rows], ["done", "crashed", "hung", "cut short"])


class KernelsTest(CampaignCase):
    def compile(self, ways, verify=lambda path: None, architecture="sm_90", seconds=60):
        def command(script):
            return lambda target, source, path: ["sh", "-c", script, target, str(source), str(path)]

        self.tried = []

        def note(path, _):
            self.tried.append(path.read_text(encoding="utf-8").strip())
            return verify(path)

        with mock.patch.object(
            kernels, "compilers", lambda: [(name, command(text)) for name, text in ways]
        ):
            return kernels.compile_for(
                pathlib.Path("k.cu"), self.folder, architecture, note, seconds
            )

    def test_what_the_driver_accepts_is_taken(self):
        ways = [("nvcc", "echo nvcc $0 > $2"), ("nvrtc", "echo nvrtc $0 > $2")]
        self.assertEqual(self.compile(ways).said, "compiled by nvcc for sm_90")
        self.assertEqual(
            self.compile(ways, architecture=None).said, "compiled by nvcc for compute_75"
        )
        answers = {"nvcc sm_90": "no image", "nvcc compute_75": "too new"}
        compiled = self.compile(
            ways, lambda path: answers.get(path.read_text(encoding="utf-8").strip())
        )
        self.assertEqual(compiled.said, "compiled by nvrtc for sm_90")
        self.assertEqual(self.tried, ["nvcc sm_90", "nvcc compute_75", "nvrtc sm_90"])

    def test_compilers_may_fail_crash_hang_and_write_nothing(self):
        ways = [
            ("a", "echo it fails >&2; exit 1"),
            ("b", "kill -11 $$"),
            ("c", "exit 0"),
            ("d", "exec sleep 1000"),
        ]
        compiled = self.compile([*ways, ("e", "echo e > $2")], seconds=4)
        self.assertEqual(compiled.said, "compiled by e for sm_90")
        compiled = self.compile(ways, architecture=None, seconds=1)
        self.assertIsNone(compiled.path)
        for problem in (
            "a for compute_75: it fails",
            "b for compute_75: crashed",
            "d for compute_75: its time was over",
        ):
            self.assertIn(problem, compiled.said)

    def test_they_compile_where_there_is_a_compiler(self):
        """All kernels, by each compiler of this machine."""
        found = list(kernels.compilers())
        source = CAMPAIGN / "kernels/kernels.cu"
        has_compiled = False
        for name, command in found:
            for target in ("sm_90", "compute_75"):
                path = self.folder / target
                done = subprocess.run(
                    command(target, source, path), capture_output=True, text=True, check=False
                )
                if "cannot open shared object file" in done.stderr:
                    continue
                self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
                self.assertGreater(path.stat().st_size, 1000)
                path.unlink()
                has_compiled = True
        if not has_compiled:
            self.skipTest("there is neither nvcc nor libnvrtc")


if __name__ == "__main__":
    campaign_case.main()
