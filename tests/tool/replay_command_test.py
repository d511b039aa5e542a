#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth replay`."""

import gzip
import os
import unittest

from berth_command import HEADER, MIB, TRACE, CommandTest, berth


class Replay(CommandTest):
    def replay(self, *arguments, env=None):
        outcome = berth("replay", "--json", *arguments, env=env)
        return self.assert_success(outcome).json()

    def test_json(self):
        (result,) = self.replay(self.trace)
        self.assertEqual(result["trace"], self.trace)
        self.assertEqual(result["trace_device"], 0)
        self.assertEqual(result["driver"], "sim")
        self.assertEqual(result["device"], "cuda:0")
        self.assertEqual(result["passes"], 4)
        self.assertEqual(result["operations"], 4)
        self.assertEqual(result["allocations"], 3)
        self.assertEqual(result["bytes_live_peak"], 5 * MIB)
        self.assertGreaterEqual(result["bytes_reserved_peak"], 5 * MIB)
        self.assertAlmostEqual(
            result["waste"], result["bytes_reserved_peak"] / result["bytes_live_peak"] - 1
        )
        self.assertGreater(sum(result["driver_calls"].values()), 0)
        self.assertEqual(
            result["driver_calls_steady"], sum(result["driver_calls_steady_by_function"].values())
        )
        self.assertGreaterEqual(result["ns_per_operation"], 0)
        self.assertEqual(result["out_of_memory"], 0)
        self.assertEqual(result["page_remaps"], 0)

    def test_text_has_a_row_for_each_trace_and_a_summary(self):
        other = self.write("a-recorded-program-long-name.csv", TRACE)
        out = self.assert_success(berth("replay", self.trace, other)).out
        self.assertRegex(out, r"^driver: sim .*\ndevice: cuda:0\n\ntrace +live +reserved +waste ")
        self.assertRegex(out, r"(?m)^small +5\.00 MiB ")
        self.assertRegex(out, r"(?m)^a-recorded-program-long-name +5\.00 MiB ")
        self.assertRegex(out, r"(?m)^waste: median [\d.]+%, worst [\d.]+% \(")
        self.assertRegex(out, r"(?m)^last pass: no driver call in \d of 2$")
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)

    def test_one_pass_has_no_steady_state(self):
        (result,) = self.replay(self.trace, "--passes", "1")
        for field in (
            "driver_calls_steady", "driver_calls_steady_by_function", "ns_per_operation",
        ):  # fmt: skip
            self.assertIsNone(result[field], field)

    def test_validation_finds_nothing(self):
        (result,) = self.replay(self.trace, "--validate")
        self.assertIsNone(result["ns_per_operation"])

    def test_without_virtual_memory_memory_comes_in_segments(self):
        (result,) = self.replay(self.trace, "--no-virtual-memory")
        self.assertIn("cuMemAlloc", result["driver_calls"])
        (result,) = self.replay(self.trace)
        self.assertNotIn("cuMemAlloc", result["driver_calls"])

    def test_a_limit_makes_requests_fail_and_the_replay_succeed(self):
        (result,) = self.replay(self.trace, "--limit", "4 MiB")
        self.assertEqual(result["out_of_memory"], 4)
        self.assertEqual(result["bytes_live_peak"], 2 * MIB)
        self.assertLessEqual(result["bytes_reserved_peak"], 4 * MIB)
        out = self.assert_success(berth("replay", self.trace, "--limit", "4MiB")).out
        self.assertIn("out of memory: 4 requests of small in 4 passes", out)
        out = berth("replay", self.trace, "--limit", "4MiB", "--passes", "1").out
        self.assertIn("out of memory: 1 request of small in 1 pass\n", out)

    def test_every_recorded_device_is_a_result(self):
        trace = self.write("two.csv", HEADER + "alloc,1,1000,0,1,0\nalloc,2,3000,0,0,1\n")
        results = self.replay(trace)
        self.assertEqual([result["trace_device"] for result in results], [0, 1])
        self.assertEqual([result["bytes_live_peak"] for result in results], [3000, 1000])

    def test_columns_stand_below_one_another_whatever_devices_a_trace_has(self):
        events = "alloc,1,1000,0,0,0\nalloc,2,3000,0,12,1\n"
        traces = (self.trace, self.write("small2.csv", HEADER + events), self.trace)
        out = self.assert_success(berth("replay", *traces)).out
        tables = [text.splitlines() for text in out.split("\n\n") if text.startswith("trace ")]
        self.assertEqual([len(rows) for rows in tables], [2, 4], out)
        for rows in tables:  # the last column is flush right
            self.assertEqual({len(row) for row in rows}, {len(rows[0])}, out)

    def test_the_device_is_the_one_asked_for(self):
        env = {"BERTH_SIM": "devices=2"}
        (result,) = self.replay(self.trace, "--device", "cuda:1", env=env)
        self.assertEqual(result["device"], "cuda:1")

    def test_compressed_traces_are_read(self):
        trace = self.write("small.csv.gz", gzip.compress(TRACE.encode()))
        self.assertEqual(self.replay(trace)[0]["bytes_live_peak"], 5 * MIB)

    def test_one_bad_trace_does_not_lose_the_others(self):
        missing = os.path.join(self.folder, "missing.csv")
        outcome = berth("replay", "--json", missing, self.trace)
        self.assert_error(outcome, 1, missing)
        bad, good = outcome.json()
        self.assertEqual(set(bad), {"trace", "error"})
        self.assertEqual(bad["trace"], missing)
        self.assertTrue(bad["error"])
        self.assertEqual(good["bytes_live_peak"], 5 * MIB)

        outcome = berth("replay", missing, self.trace)
        self.assert_error(outcome, 1, missing)
        self.assertRegex(outcome.out, r"(?m)^small +5\.00 MiB ")

    def test_bad_traces_are_refused_in_one_line(self):
        compressed = gzip.compress(TRACE.encode())
        for name, content in {
            "empty.csv": "",
            "no-rows.csv": HEADER,
            "noise.csv": bytes(range(256)) * 40,
            "truncated.csv": TRACE[: TRACE.rindex(",")],
            "truncated.csv.gz": compressed[: len(compressed) // 2],
            "broken.csv.gz": compressed[:-8] + b"\0" * 8,
            "negative.csv": HEADER + "alloc,1,-5,0,0,0\n",
            "too-large.csv": HEADER + "alloc,1,99999999999999999999,0,0,0\n",
            "twice.csv": HEADER + "alloc,1,8,0,0,0\nalloc,1,8,0,0,1\n",
            "never-allocated.csv": HEADER + "free,1,8,0,0,0\n",
            "freed-twice.csv": HEADER + "alloc,1,8,0,0,0\nfree,1,8,0,0,1\nfree,1,8,0,0,2\n",
            "unknown.csv": HEADER + "realloc,1,8,0,0,0\n",
            "class.pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
            "nothing.json": "{}",
        }.items():
            with self.subTest(name):
                outcome = berth("replay", "--json", self.write(name, content))
                self.assert_error(outcome, 1, name)
                (result,) = outcome.json()
                self.assertEqual(set(result), {"trace", "error"})

    def test_a_request_that_no_device_can_serve_is_counted(self):
        trace = self.write("huge.csv", HEADER + f"alloc,1,{(1 << 64) - 1},0,0,0\n")
        (result,) = self.replay(trace, "--validate")
        self.assertEqual(result["out_of_memory"], 4)
        self.assertIsNone(result["waste"])

    def test_a_folder_is_no_trace(self):
        self.assert_error(berth("replay", self.folder), 1, self.folder)

    def test_bad_values_are_usage_errors(self):
        for option, value, *words in (
            ("--passes", "0", "1", "1000"),
            ("--passes", "two", "two"),
            ("--passes", "010", "010", "decimal"),
            ("--passes", "0x3", "0x3", "decimal"),
            ("--limit", "much", "much"),
            ("--limit", "-1", "-1"),
            ("--device", "gpu:0", "gpu:0"),
            ("--device", "cpu", "cpu", "cuda:N"),
        ):
            with self.subTest(option=option, value=value):
                outcome = berth("replay", self.trace, f"{option}={value}")
                self.assert_error(outcome, 2, option, *words)

    def test_an_empty_value_is_a_usage_error(self):
        for option in ("--driver", "--limit", "--host-memory", "--device"):
            self.assert_error(berth("replay", self.trace, option, ""), 2, option, "not empty")

    def test_a_device_that_does_not_exist(self):
        self.assert_error(berth("replay", self.trace, "--device", "cuda:7"), 3, "cuda:7")

    def test_a_warning_is_printed_once_however_many_traces_there_are(self):
        env = {"BERTH_SIM": "devices=2", "CUDA_VISIBLE_DEVICES": "1,x"}
        outcome = berth("replay", self.trace, self.trace, env=env)
        self.assert_success(outcome, quiet=False)
        self.assertRegex(outcome.err, r"^berth: warning: .*CUDA_VISIBLE_DEVICES.*\n$")

    def test_no_visible_device(self):
        outcome = berth("replay", self.trace, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(outcome.exit_code, 3, outcome.story)


if __name__ == "__main__":
    unittest.main()
