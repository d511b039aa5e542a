#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/gpu.md is what gpu_page.py makes of docs/gpu."""
import json
import pathlib
import shutil
import tempfile
import unittest

import gpu_page

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
CATALOGUE = {"contract": {"cases": "semantics"}, "prices": {"map": "`cuMemMap`", "unmap": "`cuMemUnmap`"}}
SUMMARY = {
    "bundle": {"berth": "0.1"}, "machine": {"host": "Linux", "cpus": 16}, "began": "2030-01-02T03:04:05Z",
    "kernels": "compiled by nvcc",
}  # fmt: skip


class GpuPageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def add(self, name, summary, **results):
        (self.folder / name).mkdir()
        for part, content in {"campaign": summary, **results}.items():
            (self.folder / name / f"{part}.json").write_text(json.dumps(content), encoding="utf-8")

    def page(self):
        return gpu_page.page(self.folder, CATALOGUE)

    def test_the_page_is_up_to_date(self):
        catalogue = json.loads((HERE / "figures.json").read_text(encoding="utf-8"))
        made = gpu_page.page(DOCS / "gpu", catalogue)
        self.assertEqual((DOCS / "gpu.md").read_text(encoding="utf-8"), made, "run campaign/gpu_page.py")

    def test_nothing_is_measured_without_results(self):
        self.assertEqual(self.page().count("not measured yet"), 3)

    def test_what_is_measured_stands_beside_what_is_not(self):
        rows = [
            {"figure": "map", "row": "2 MiB", "ns_p50": 1234, "ns_p99": 2_000_000, "count": 7},
            {"figure": "map", "row": "a | b", "ns_p50": 12},
        ]
        self.add("h100", SUMMARY, prices={"outcome": "hung", "seconds": 12.3, "rows": rows})
        text = self.page()
        self.assertIn("| case | `cuMemMap` |\n|---|---|\n| 2 MiB | p50 1.23 us, p99 2 ms, 7 times |", text)
        self.assertIn("| a \\| b | p50 12 ns |", text)
        self.assertIn("| question | measured |\n|---|---|\n| `cuMemUnmap` | not measured yet |", text)
        self.assertIn("The part hung after 12 s.", text)
        self.assertIn("2030-01-02. Kernels: compiled by nvcc.", text)

    def test_cases_are_counted_and_those_that_differ_are_named(self):
        rows = [
            {"case": "a", "outcome": "agrees"},
            {"case": "b", "outcome": "agrees"},
            {"case": "c", "outcome": "differs", "said": ["x.cpp:1: CHECK(1 == 2), but 1 == 2"]},
            {"case": "d", "outcome": "not applicable", "said": ["skipped: needs two devices"]},
            {"case": "e", "outcome": "crashed"},
        ]
        self.add("h100", SUMMARY, contract={"outcome": "done", "seconds": 1.0, "rows": rows})
        text = self.page()
        self.assertIn("| case | semantics |", text)
        self.assertIn("| all | 2 agrees, 1 crashed, 1 differs, 1 not applicable |", text)
        self.assertIn("| c | differs; x.cpp:1: CHECK(1 == 2), but 1 == 2 |", text)
        self.assertIn("| e | crashed |", text)

    def test_figures_with_the_same_cases_stand_side_by_side(self):
        rows = [{"figure": figure, "row": case, "ns_p50": 5} for figure in ("map", "unmap") for case in ("a", "b")]
        self.add("h100", SUMMARY, prices={"outcome": "done", "seconds": 1.0, "rows": rows})
        text = self.page()
        self.assertIn("| case | `cuMemMap` | `cuMemUnmap` |\n|---|---|---|\n| a | p50 5 ns | p50 5 ns |\n| b |", text)

    def test_benchmarks_stand_beside_their_peers(self):
        row = {"program": "benchmarks", "figure": "map", "row": "pair/512", "berth": 7.9231, "unit": "ns", "cub": 76.7}
        self.assertEqual(gpu_page.measured_text(row), "berth 7.92 ns, cub 76.7 ns")

    def test_the_newest_campaign_comes_first(self):
        self.add("old", SUMMARY | {"began": "2029-01-01T00:00:00Z"})
        self.add("new", SUMMARY)
        text = self.page()
        self.assertLess(text.index("## new"), text.index("## old"))


if __name__ == "__main__":
    unittest.main()
