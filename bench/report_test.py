# SPDX-License-Identifier: Apache-2.0
"""Tests of report.py on outputs written by hand."""

import unittest

import report


def run(name: str, **fields: object) -> dict:
    return {"run_name": name, "run_type": "iteration", "family_index": 0} | fields


def output(*runs: dict) -> dict:
    context = {"driver": "sim", "device": "Simulated GPU"}
    return {"context": context, "benchmarks": list(runs)}


class ReportTest(unittest.TestCase):
    def setUp(self) -> None:
        self.report = report.Report()

    def test_a_value_is_the_median_of_its_repetitions(self) -> None:
        runs = [run("pair/berth", items_per_second=1e9 / ns) for ns in (5, 90, 7)]
        self.report.add(output(*runs))
        self.assertAlmostEqual(self.report.figures["pair"].mean("berth"), 7)

    def test_what_the_benchmark_library_appends_to_a_name_is_no_row(self) -> None:
        name = "threads2/berth/iterations:1/real_time/threads:2"
        self.assertEqual(report.split_name(name), ("threads2", "berth", ""))

    def test_a_figure_is_the_mean_of_its_rows(self) -> None:
        self.report.add(
            output(
                run("pair/berth/512", items_per_second=1e8),
                run("pair/berth/4096", items_per_second=5e7),
                run("pair/cub/512", items_per_second=1e7),
                run("pair/cub/4096", items_per_second=1e7),
            )
        )
        figure = self.report.figures["pair"].to_json()
        self.assertAlmostEqual(figure["value"], 15)
        self.assertAlmostEqual(figure["peers"]["cub"], 100)
        self.assertEqual([row["figure"] for row in figure["rows"]], ["pair/512", "pair/4096"])

    def test_rows_are_in_the_order_of_registration(self) -> None:
        self.report.add(
            output(
                run("pair/berth/4096", items_per_second=1e8, family_index=1),
                run("pair/berth/512", items_per_second=1e8, family_index=0),
            )
        )
        self.assertEqual(self.report.figures["pair"].rows, ["512", "4096"])

    def test_a_peer_that_lacks_a_row_has_no_mean(self) -> None:
        self.report.add(
            output(
                run("pair/berth/512", items_per_second=1e8),
                run("pair/berth/4096", items_per_second=5e7),
                run("pair/driver/512", items_per_second=1e6),
            )
        )
        figure = self.report.figures["pair"].to_json()
        self.assertEqual(figure["peers"], {})
        self.assertAlmostEqual(figure["rows"][0]["peers"]["driver"], 1000)

    def test_a_peer_without_rows_stands_beside_them_all(self) -> None:
        self.report.add(
            output(
                run("pair/berth/512", items_per_second=1e8),
                run("pair/berth/4096", items_per_second=5e7),
                run("pair/malloc", items_per_second=1e8),
            )
        )
        figure = self.report.figures["pair"].to_json()
        self.assertAlmostEqual(figure["peers"]["malloc"], 10)
        self.assertEqual([row["peers"] for row in figure["rows"]], [{}, {}])

    def test_the_table_says_how_many_times_as_much_a_peer_needs(self) -> None:
        self.report.add(
            output(run("pair/berth", items_per_second=1e8), run("pair/cub", items_per_second=25e6))
        )
        line = report.table(list(self.report.figures.values())).splitlines()[1]
        self.assertEqual(line.split(), ["pair", "10", "ns", "40", "4x", "sim"])

    def test_waste_is_shown_with_the_median_and_the_worst_of_its_rows(self) -> None:
        wastes = {"berth": (1.0, 2.0, 9.0), "cub": (10.0, 20.0, 90.0), "rmm": (5.0, 5.0)}
        for peer, percents in wastes.items():
            self.report.add(
                output(*(run(f"waste/{peer}/{n}", percent=p) for n, p in enumerate(percents)))
            )
        figure = self.report.figures["waste"].to_json()
        self.assertEqual((figure["value"], figure["unit"]), (4.0, "%"))
        median, worst = figure["spread"]
        self.assertEqual((median["figure"], median["value"]), ("waste:median", 2.0))
        self.assertEqual((worst["figure"], worst["value"]), ("waste:worst", 9.0))
        self.assertEqual(worst["peers"], {"cub": 90.0})
        self.assertEqual(worst["spread"], [])

    def test_a_time_is_shown_by_its_mean_alone(self) -> None:
        runs = [run(f"pair/berth/{row}", items_per_second=1e8) for row in (512, 4096)]
        self.report.add(output(*runs))
        self.assertEqual(self.report.figures["pair"].to_json()["spread"], [])

    def test_a_unit_is_known_by_the_counter_that_holds_the_value(self) -> None:
        self.report.add(
            output(
                run("squeezed/berth/iterations:1/repeats:1", requests_refused=3.0),
                run("cost/berth/iterations:1/repeats:1", ratio=1.5),
            )
        )
        units = {name: figure.unit for name, figure in self.report.figures.items()}
        self.assertEqual(units, {"squeezed": "requests", "cost": "ratio"})

    def test_no_calls_at_all_make_no_ratio(self) -> None:
        self.report.add(output(run("calls/berth", calls=0.0), run("calls/cub", calls=1.0)))
        line = report.table(list(self.report.figures.values())).splitlines()[1]
        self.assertEqual(line.split(), ["calls", "0", "calls", "1", "-", "sim"])

    def test_a_benchmark_that_is_left_out_is_neither_value_nor_failure(self) -> None:
        self.report.add(output(run("waste/cub", label="left out")))
        self.assertEqual((self.report.figures, self.report.failures), ({}, []))

    def test_an_error_of_a_benchmark_is_a_failure(self) -> None:
        for _ in range(2):
            error = run("pair/berth", error_occurred=True, error_message="no memory\nframe #0")
            self.report.add(output(error))
        self.assertEqual(self.report.failures, ["pair/berth: no memory"])

    def test_a_figure_without_berth_is_a_failure(self) -> None:
        self.report.add(output(run("pair/cub", items_per_second=1e8)))
        self.report.drop_figures_without_ours()
        self.assertEqual(self.report.figures, {})
        self.assertEqual(len(self.report.failures), 1)

    def test_what_is_left_out_is_told_with_its_reason(self) -> None:
        for binary in range(2):
            self.report.add_messages(f"binary {binary}\nleft out: cub: no headers\n")
        self.assertEqual(self.report.left_out, ["left out: cub: no headers"])


if __name__ == "__main__":
    unittest.main()
