#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth stats`."""

import os
import unittest

from berth_command import MIB, CommandTest, berth


class Stats(CommandTest):
    def live_bytes(self, *arguments):
        statistics = self.assert_success(berth("stats", "--json", *arguments)).json()
        (device,) = [a for a in statistics["allocators"] if a["allocator"] == "cuda:0"]
        return device["counters"]["bytes_requested"]["current"]

    def test_json_has_every_part_of_the_statistics(self):
        statistics = self.assert_success(berth("stats", "--json")).json()
        self.assertEqual(
            set(statistics),
            {"driver", "devices", "allocators", "driver_calls", "copies", "backend_devices"},
        )
        self.assertEqual(statistics["backend_devices"], [])
        self.assertEqual(statistics["driver"]["name"], "sim")
        self.assertEqual(len(statistics["devices"]), 1)

    def test_text_says_which_driver(self):
        out = self.assert_success(berth("stats")).out
        self.assertRegex(out, r"^driver +sim ")

    def test_a_trace_stands_still_at_its_peak(self):
        self.assertEqual(self.live_bytes("--trace", self.trace), 5 * MIB)

    def test_or_at_its_end(self):
        self.assertEqual(self.live_bytes("--trace", self.trace, "--at", "end"), 4 * MIB)

    def test_an_unusable_driver_has_one_status_however_it_is_chosen(self):
        missing = os.path.join(self.folder, "libmissing.so")
        self.assertEqual(berth("stats", "--driver", missing).exit_code, 3)
        self.assertEqual(berth("stats", env={"BERTH_DRIVER": missing}).exit_code, 3)

    def test_bad_values(self):
        self.assert_error(berth("stats", "--at", "noon"), 2, "--at", "peak", "end")
        missing = os.path.join(self.folder, "missing.csv")
        self.assert_error(berth("stats", "--trace", missing), 1, missing)
        self.assert_error(berth("stats", "--trace", self.trace, "--device", "cuda:7"), 3, "cuda:7")


if __name__ == "__main__":
    unittest.main()
