#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program `busy_streams`: python3 busy_streams_test.py BUSY_STREAMS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
HEADER = "op,id,bytes,stream,device,t_us\n"
# Stream 1 requests as much as stream 0 has freed.
TRACE = HEADER + (
    f"alloc,1,{4 * MIB},0,0,0\nfree,1,{4 * MIB},0,0,1\nalloc,2,{4 * MIB},1,0,2\nalloc,3,8,1,0,3\n"
)


class BusyStreams(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.trace = self.write("small.csv", TRACE)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(content)
        return path

    def run_program(self, *arguments, driver="sim"):
        environment = os.environ | {"BERTH_DRIVER": driver}
        return subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=120
        )

    def figures(self, *arguments):
        process = self.run_program("--json", "--passes", "4", *arguments)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        return json.loads(process.stdout)

    def assert_error(self, process, exit_code, *words):
        self.assertEqual(process.returncode, exit_code, process.stderr)
        lines = process.stderr.splitlines()
        self.assertEqual(len(lines), 1, process.stderr)
        self.assertTrue(lines[0].startswith("busy_streams: error: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_pending_work_raises_the_bound_and_the_waste(self):
        (idle,) = self.figures(self.trace)
        (busy,) = self.figures(self.trace, "--kernel-us", "1000000")
        self.assertEqual(idle["bound"], 0)
        self.assertAlmostEqual(busy["bound"], (8 * MIB + 8) / (4 * MIB + 8) - 1)
        self.assertLess(idle["waste_first"], 1)
        self.assertGreaterEqual(busy["waste_first"], busy["passes"][0]["bound"])
        self.assertGreaterEqual(busy["waste"], busy["waste_first"])

    def test_every_pass_has_calls_counters_and_times(self):
        (figures,) = self.figures(self.trace, "--persist", "--dependencies", "--threads", "2")
        self.assertEqual(figures["trace"], "small")
        self.assertEqual(figures["streams"], 2)
        self.assertEqual(len(figures["passes"]), 4)
        for each in figures["passes"]:
            self.assertEqual(each["driver_calls"], sum(each["driver_calls_by_function"].values()))
            self.assertEqual(each["counters"]["allocations"], 3)
            self.assertGreaterEqual(each["p999_ns"], 0)
            self.assertGreater(each["virtual_ns"], -1)

    def test_a_table_has_a_row_for_each_trace(self):
        process = self.run_program(self.trace, "own-rotation2")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        header, rule, *rows = process.stdout.splitlines()
        self.assertEqual([row.split("|")[1].strip() for row in rows], ["small", "own-rotation2"])
        self.assertEqual(len({line.count("|") for line in (header, rule, *rows)}), 1)

    def test_one_bad_trace_does_not_lose_the_others(self):
        missing = os.path.join(self.folder, "missing.csv")
        process = self.run_program(missing, self.trace)
        self.assert_error(process, 1, missing)
        self.assertIn("| small |", process.stdout)

    def test_users_that_are_no_streams(self):
        trace = self.write("users.csv", "# users: 0 x\n" + TRACE)
        self.assert_error(self.run_program(trace), 1, "users.csv", '"x"', "accepted")

    def test_bad_options(self):
        for option, *words in (
            ("--kernel-us=-1", "--kernel-us"),
            ("--kernel-us=1000001", "--kernel-us", "1000000"),
            ("--kernel-us=soon", "--kernel-us", "soon"),
            ("--passes=0", "--passes", "1000"),
            ("--threads=3", "--threads", "2"),
            ("--uses=some", "--uses", "record_use"),
            ("--reuse=some", "--reuse", "when_idle"),
            ("--allocator=none", "--allocator", "berth"),
            ("--unknown", "--unknown"),
        ):
            with self.subTest(option):
                self.assert_error(self.run_program(self.trace, option), 2, *words)
        self.assert_error(self.run_program(), 2, "TRACE")

    def test_another_driver_is_refused(self):
        self.assert_error(self.run_program(self.trace, driver="cuda"), 77, "BERTH_DRIVER", "sim")

    def test_a_peer_without_record_stream_is_refused(self):
        process = self.run_program(self.trace, "--allocator", "driver")
        self.assert_error(process, 1, "driver", "--uses none")
        process = self.run_program(self.trace, "--allocator", "driver", "--uses", "none")
        self.assertEqual((process.returncode, process.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
