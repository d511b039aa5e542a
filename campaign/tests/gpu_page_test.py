#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/gpu.md is what gpu_page.py makes of docs/gpu. Results here are invented, and kept
nowhere."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

CAMPAIGN = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CAMPAIGN))

import gpu_page  # noqa: E402
import gpu_text  # noqa: E402

DOCS = CAMPAIGN.parent / "docs"
CATALOGUE = {
    "facts": {"facts": "the device"},
    "contract": {"cases": "semantics"},
    "prices": {
        "map": {"down": "a handle", "says": "`cuMemMap`"},
        "pairs": "pairs", "others": "others", "unmap": "`cuMemUnmap`",
    },
}  # fmt: skip
SUMMARY = {
    "bundle": {"berth": "0.1"}, "machine": {"host": "Linux", "cpus": 16},
    "began": "2030-01-02T03:04:05Z", "kernels": "compiled by nvcc for sm_90",
    "driver": "cuda", "quick": False,
    "bytes_free_before": 78 << 30, "bytes_free_after": 78 << 30,
}  # fmt: skip


def price(handle, device, **values):
    return {
        "figure": "map",
        "row": f"{handle}, {device}",
        "at": {"a handle": handle, "device": device},
    } | values


def facts_of(device):
    rows = [
        {"figure": "facts", "row": "device", "value": device},
        {"figure": "facts", "row": "driver, as cuDriverGetVersion says", "value": 13000},
    ]
    return {"outcome": "done", "seconds": 1.0, "rows": rows}


class PageCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def add(self, name, summary=None, **results):
        (self.folder / name).mkdir()
        for part, content in {"campaign": summary or SUMMARY, **results}.items():
            (self.folder / name / f"{part}.json").write_text(json.dumps(content), encoding="utf-8")

    def add_prices(self, *rows, outcome="done", **more):
        self.add("h100", prices={"outcome": outcome, "seconds": 12.3, "rows": list(rows)} | more)

    def page(self):
        return gpu_page.page(self.folder, CATALOGUE)


class GpuPageTest(PageCase):
    def test_the_page_is_up_to_date(self):
        catalogue = json.loads((CAMPAIGN / "figures.json").read_text(encoding="utf-8"))
        made = gpu_page.page(DOCS / "gpu", catalogue)
        self.assertEqual(
            (DOCS / "gpu.md").read_text(encoding="utf-8"), made, "run campaign/gpu_page.py"
        )

    def test_nothing_is_measured_without_results(self):
        self.assertEqual(self.page().count("| not measured yet |"), 6)

    def test_prices_are_a_table_by_size(self):
        self.add_prices(
            price("2 MiB", "idle", ns_p50=1234, ns_p99=2_000_000, count=7),
            price(
                "2 MiB", "a kernel runs", ns_p50=12, ns_p99=13, count=300, outlasted_the_kernel=4
            ),
            price("8 MiB", "idle", ns_p50=5, ns_p99=6, count=1),
            {"figure": "map", "row": "32 MiB", "outcome": "failed", "text": "out | of memory"},
        )
        self.assertIn(
            "`cuMemMap`:\n\n"
            "| a handle | idle | a kernel runs |\n|---|---|---|\n"
            "| 2 MiB | 1.23 us / 2 ms (7) | 12 ns / 13 ns (300), 4 outlasted the kernel |\n"
            "| 8 MiB | 5 ns / 6 ns (1) | not measured yet |\n\n"
            "* 32 MiB: failed: out \\| of memory\n",
            self.page(),
        )

    def test_what_is_measured_stands_beside_what_is_not(self):
        self.add_prices({"figure": "pairs", "row": "a | b", "ns_p50": 12})
        text = self.page()
        self.assertIn("| case | pairs |\n|---|---|\n| a \\| b | p50 12 ns |", text)
        self.assertIn(
            "| question | measured |\n|---|---|\n| others | not measured yet |\n"
            "| `cuMemUnmap` | not",
            text,
        )

    def test_figures_with_the_same_cases_stand_side_by_side(self):
        rows = [
            {"figure": figure, "row": case, "ns_p50": 5}
            for figure in ("pairs", "others")
            for case in "ab"
        ]
        self.add_prices(*rows)
        self.assertIn(
            "| case | pairs | others |\n|---|---|---|\n| a | p50 5 ns | p50 5 ns |\n| b |",
            self.page(),
        )

    def test_a_part_that_did_not_end_well_says_why(self):
        programs = [
            {"program": "prices", "outcome": "done"},
            {"program": "stalls", "outcome": "hung", "why": "it printed nothing for 9 s"},
            {"program": "batch", "outcome": "crashed", "signal": "SIGSEGV"},
            {"program": "more", "outcome": "failed", "text": "cuMemMap:\nno"},
        ]
        self.add_prices(outcome="crashed", programs=programs)
        self.assertIn(
            "The part crashed after 12 s.\n* stalls: hung, it printed nothing for 9 s\n"
            "* batch: crashed, SIGSEGV\n* more: failed, cuMemMap: no\n",
            self.page(),
        )

    def test_cases_are_counted_and_those_that_differ_are_named(self):
        rows = [
            {"case": "a", "outcome": "agrees"},
            {"case": "b", "outcome": "agrees"},
            {"case": "c", "outcome": "differs", "said": ["x.cpp:1: CHECK(1 == 2), but 1 == 2"]},
            {"case": "d", "outcome": "not applicable", "said": ["skipped: needs two devices"]},
            {"case": "e", "outcome": "crashed"},
        ]
        self.add("h100", contract={"outcome": "done", "seconds": 1.0, "rows": rows})
        text = self.page()
        self.assertIn("| all | 2 agrees, 1 crashed, 1 differs, 1 not applicable |", text)
        self.assertIn("| c | differs; x.cpp:1: CHECK(1 == 2), but 1 == 2 |", text)
        self.assertIn("| e | crashed |", text)

    def test_figures_of_another_version_are_kept(self):
        self.add_prices({"figure": "novel", "row": "a", "value": 5})
        self.assertIn("| novel | measured |\n|---|---|\n| a | 5 |", self.page())

    def test_values_are_written_for_people(self):
        row = {
            "program": "b",
            "figure": "bench",
            "row": "pair/512",
            "berth": 7.9231,
            "unit": "ns",
            "cub": 76.7,
        }
        self.assertEqual(gpu_text.measured_text(row), "berth 7.92 ns, cub 76.7 ns")
        row = {"gigabytes_per_second": 51.234, "of_the_driver_alone": None, "waste_percent": 1.5}
        self.assertEqual(
            gpu_text.measured_text(row), "51.2 GB/s, no of the driver alone, 1.50 % waste"
        )


class CampaignsTest(PageCase):
    """Several campaigns, on several devices."""

    def test_each_has_a_section_and_the_newest_comes_first(self):
        later = SUMMARY | {"began": "2030-02-01T00:00:00Z"}
        self.add("b", SUMMARY, facts=facts_of("NVIDIA H100"))
        self.add("c", later, facts=facts_of("NVIDIA H200"))
        self.add("a", SUMMARY | {"began": "2029-01-01T00:00:00Z"}, facts=facts_of("NVIDIA H100"))
        heads = [line for line in self.page().splitlines() if line.startswith("## ")]
        self.assertEqual(
            heads,
            [
                "## How to measure",
                "## NVIDIA H200, 2030-02-01",
                "## NVIDIA H100, 2030-01-02",
                "## NVIDIA H100, 2029-01-01",
            ],
        )

    def test_two_of_one_day_are_told_apart(self):
        self.add("first", facts=facts_of("NVIDIA H100"))
        self.add("second", facts=facts_of("NVIDIA H100"))
        text = self.page()
        self.assertLess(
            text.index("## NVIDIA H100, 2030-01-02, second"),
            text.index("## NVIDIA H100, 2030-01-02, first"),
        )

    def test_a_campaign_says_what_it_ran_on(self):
        self.add("h100", facts=facts_of("NVIDIA H100"))
        self.assertIn(
            "CUDA 13000, Linux, 16 processors; berth 0.1. Kernels: compiled by nvcc for sm_90. "
            "Free memory before and after: 78 GiB and 78 GiB. All results are in `docs/gpu/h100`.",
            self.page(),
        )

    def test_an_interrupted_campaign_is_one(self):
        summary = {name: value for name, value in SUMMARY.items() if name != "bytes_free_after"}
        self.add("h100", summary | {"interrupted": "SIGTERM"})
        text = self.page()
        self.assertIn("## Unknown device, 2030-01-02", text)
        self.assertIn("The campaign was interrupted by SIGTERM.", text)
        self.assertEqual(text.count("| not measured yet |"), 6)

    def test_what_is_no_measurement_is_refused(self):
        for number, more in enumerate(({"driver": "sim"}, {"quick": True})):
            self.add(str(number), SUMMARY | more)
            with self.assertRaisesRegex(SystemExit, f"{number}: a rehearsal is no measurement"):
                self.page()
            shutil.rmtree(self.folder / str(number))
        self.add("early", {"parts": {}})
        with self.assertRaisesRegex(SystemExit, "ended before its first part"):
            self.page()
        (self.folder / "early/campaign.json").write_text("{", encoding="utf-8")
        with self.assertRaisesRegex(SystemExit, "campaign.json is no JSON"):
            self.page()


if __name__ == "__main__":
    unittest.main()
