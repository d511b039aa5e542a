#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole campaign on the simulated driver, from a bundle as it would travel.

rehearsal_test.py SOURCE BUILD
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import bundle  # noqa: E402
import gpu_page  # noqa: E402
import results  # noqa: E402

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
# What only a kernel can tell, and none runs here.
NEEDS_KERNELS = ("stalls",)
# Benchmarks are built where they are asked for.
HAS_BENCHMARKS = any((BUILD / "bench").glob("bench_*"))


class RehearsalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        bundle.fill(cls.folder / "bundle", SOURCE, BUILD)
        environment = os.environ | {
            "BERTH_DRIVER": "sim",
            "BERTH_SIM": "memory=64GiB,poison=off,checks=off",
            "PYTHONPATH": str(HERE / "fakes"),
            # Only portable builds look there by themselves.
            "LD_LIBRARY_PATH": str(cls.folder / "bundle/lib"),
        }
        cls.done = subprocess.run(
            [cls.folder / "bundle/campaign", "--out", cls.folder / "out", "--quick"],
            env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        cls.results = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in (cls.folder / "out").glob("*.json")
        }
        cls.catalogue = json.loads((HERE / "figures.json").read_text(encoding="utf-8"))
        if not HAS_BENCHMARKS:
            del cls.catalogue["allocation"]["bench"]

    def endings(self):
        programs = [
            program for result in self.results.values() for program in result.get("programs", ())
        ]
        tests = self.results["contract"]["rows"]
        bad = [
            each
            for each in [*programs, *tests]
            if each["outcome"] in ("failed", "crashed", "hung", "differs")
        ]
        return json.dumps(bad, indent=1)

    def test_all_parts_end_well(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.endings())
        self.assertEqual(set(self.results["campaign"]["parts"].values()), {"done"})

    def test_the_bundle_names_the_c_library_that_it_needs(self):
        self.assertRegex(self.results["campaign"]["bundle"]["glibc"], r"^2\.\d+$")

    def test_the_page_knows_each_part_and_no_other(self):
        self.assertEqual(list(self.results["campaign"]["parts"]), list(self.catalogue))

    def test_every_figure_is_measured(self):
        for part, figures in self.catalogue.items():
            rows = self.results[part]["rows"]
            for figure in figures:
                named = gpu_page.rows_of(figure, rows)
                self.assertTrue(named, f"{part} has no row of {figure}")
                for name, measured in named:
                    expected = "not applicable" if figure in NEEDS_KERNELS else ""
                    self.assertTrue(measured.startswith(expected), f"{figure}, {name}: {measured}")
                    self.assertNotEqual(measured, gpu_page.NOT_MEASURED, f"{figure}, {name}")

    def test_every_figure_is_in_the_page(self):
        known = {figure for figures in self.catalogue.values() for figure in figures}
        found = {
            row["figure"]
            for result in self.results.values()
            for row in result.get("rows", ())
            if "figure" in row
        }
        self.assertEqual(found - known, set())

    def test_the_device_is_left_as_it_was(self):
        campaign = self.results["campaign"]
        self.assertIsNotNone(campaign["bytes_free_before"])
        self.assertEqual(campaign["bytes_free_before"], campaign["bytes_free_after"])

    def test_blocks_are_checked_through_further_mappings(self):
        for part in ("allocation", "endurance"):
            rows = [row for row in self.results[part]["rows"] if row.get("figure") == "blocks"]
            self.assertGreater(sum(row["granules_mapped_again"] for row in rows), 0)
            self.assertGreater(sum(row["pieces_written_again"] for row in rows), 0)

    def test_a_fault_in_a_child_is_told(self):
        rows = [row for row in self.results["endurance"]["rows"] if row.get("figure") == "faults"]
        told = [row["told"] for row in rows if "told" in row]
        self.assertEqual(len(told), 1)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", told[0])

    def test_results_fit_what_travels_back(self):
        files = list((self.folder / "out").iterdir())
        self.assertLessEqual(len(files), results.FILES_MAX)
        self.assertLess(max(path.stat().st_size for path in files), 16 << 20)

    def test_the_page_is_made_of_the_results(self):
        out = self.folder / "results/simulated"
        shutil.copytree(self.folder / "out", out)
        text = gpu_page.page(out.parent, self.catalogue, accept_simulated=True)
        self.assertIn("## Simulated GPU, ", text)
        self.assertIn("| a handle | 1 handle, idle | 4 handles, idle |", text)
        self.assertRegex(
            text, r"CUDA.s semantics, case by case \|\n\|---\|---\|\n\| all \| \d+ agrees"
        )
        self.assertNotIn(gpu_page.NOT_MEASURED, text)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
