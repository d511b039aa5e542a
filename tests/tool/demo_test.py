#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth demo`."""

import os
import unittest

from berth_command import MIB, CommandTest, berth


class Demo(CommandTest):
    def test_text_shows_every_part(self):
        out = self.assert_success(berth("demo", "--trace", self.trace)).out
        for part in ("Devices", "Replay", "Copies", "Statistics"):
            self.assertRegex(out, rf"(?m)^{part}\b")
        self.assertRegex(out, r"(?m)compared byte for byte: no bytes differ$")
        self.assertRegex(out, r"\ndriver: sim .*\n$")

    def test_json(self):
        result = self.assert_success(berth("demo", self.trace, "--json")).json()
        self.assertEqual(result["driver"], "sim")
        self.assertEqual(len(result["devices"]), 2)
        self.assertEqual(result["replay"]["bytes_live_peak"], 5 * MIB)
        copies = result["copies"]
        self.assertGreaterEqual(copies["bytes_compared"], 64 * MIB)
        self.assertEqual(copies["bytes_different"], 0)
        self.assertGreater(copies["streams_pending_peak"], 1)
        self.assertIn("allocators", result["statistics"])

    def test_bytes_arrive_whatever_the_simulator_does(self):
        for simulator in (
            "",
            "devices=3,progress=random,seed=9",
            "devices=2,progress=random,peer=off",
            "progress=random,vmm=off",
        ):
            with self.subTest(simulator):
                env = {"BERTH_SIM": simulator}
                result = self.assert_success(berth("demo", self.trace, "--json", env=env)).json()
                self.assertEqual(result["copies"]["bytes_different"], 0)

    def test_a_device_that_is_lost_during_the_copies_ends_it_with_an_error(self):
        calls = 0
        for lost in range(200, 5000, 300):
            faults = f"*@{lost}=lost:{lost // 300 % 2}"
            simulator = f"devices=2,progress=random,seed={lost},faults={faults}"
            with self.subTest(simulator):
                result = berth("demo", self.trace, "--json", env={"BERTH_SIM": simulator})
                # A negative code is a signal.
                self.assertIn(result.exit_code, (0, 1), result.story)
                if result.exit_code == 1:
                    calls += 1
                    self.assertIn("CUDA_ERROR_UNKNOWN", result.err, result.story)
        self.assertGreater(calls, 0)

    def test_a_trace_that_is_missing(self):
        missing = os.path.join(self.folder, "missing.csv")
        self.assert_error(berth("demo", "--trace", missing), 1, missing)


if __name__ == "__main__":
    unittest.main()
