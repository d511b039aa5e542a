#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth tune`."""

import unittest

from berth_command import CommandTest, berth

ONCE = ("--repeat", "1")


class Tune(CommandTest):
    def test_every_way_is_measured_in_both_directions(self):
        result = self.assert_success(berth("tune", *ONCE, "--json")).json()
        self.assertEqual((result["driver"], result["device"]), ("sim", "cuda:0"))
        sizes = {d: [b["range_bytes"] for b in result["batches"] if b["direction"] == d]
                 for d in ("in", "out")}
        self.assertEqual(sizes["in"], sizes["out"])
        self.assertEqual(sizes["in"], sorted(set(sizes["in"])))
        for batch in result["batches"]:
            for way in ("together", "one_by_one"):
                self.assertGreater(batch[f"{way}_bytes_per_second"], 0)
            packed = batch["packed_bytes_per_second"]
            self.assertEqual(packed is not None, batch["direction"] == "out")

    def test_the_last_line_is_a_configuration_that_is_accepted(self):
        last = self.assert_success(berth("tune", *ONCE)).out.splitlines()[-1]
        name, _, configuration = last.partition("=")
        self.assertEqual(name, "BERTH_CONF")
        keys = [entry.partition("=")[0] for entry in configuration.split(",")]
        self.assertEqual(keys, ["copy_batched_range_bytes_min", "copy_packed_range_bytes_max"])
        self.assert_success(berth("config", env={name: configuration}))

    def test_a_driver_without_batch_calls_is_measured_too(self):
        env = {"BERTH_SIM": "faults=cuMemcpyBatchAsync=not_supported"}
        self.assert_success(berth("tune", *ONCE, env=env))

    def test_what_is_not_accepted_is_named(self):
        self.assert_error(berth("tune", "--device", "cpu"), 2, "cpu")
        self.assert_error(berth("tune", "--repeat", "0"), 2, "--repeat", "1")
        self.assert_error(berth("tune", "--device", "cuda:7"), 3, "cuda:7")


if __name__ == "__main__":
    unittest.main()
