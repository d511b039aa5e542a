#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth copy`."""

import unittest

from berth_command import KIB, MIB, CommandTest, berth

SMALL = ("--sizes", "4KiB,1MiB", "--repeat", "1")
TWO = {"BERTH_SIM": "devices=2,memory=8GiB"}


class Copy(CommandTest):
    def test_json_has_each_direction_kind_and_size(self):
        result = self.assert_success(berth("copy", *SMALL, "--json", env=TWO)).json()
        self.assertEqual((result["driver"], result["device"]), ("sim", "cuda:0"))
        found = [(c["direction"], c["host"], c["bytes"]) for c in result["copies"]]
        series = [(d, h) for d in ("in", "out") for h in ("pageable", "pinned")]
        series += [("within", None), ("peer", None)]
        self.assertEqual(found, [(*s, bytes_) for s in series for bytes_ in (4 * KIB, MIB)])
        for copy in result["copies"]:
            self.assertGreater(copy["seconds"], 0)
            self.assertAlmostEqual(
                copy["bytes_per_second"], copy["bytes"] / copy["seconds"], delta=1e3
            )
            self.assertIsNone(copy["bytes_different"])

    def test_every_byte_is_compared_where_that_is_asked_for(self):
        for progress in ("eager", "manual", "random"):
            with self.subTest(progress):
                env = {"BERTH_SIM": f"devices=2,memory=8GiB,progress={progress}"}
                result = self.assert_success(
                    berth("copy", *SMALL, "--check", "--json", env=env)
                ).json()
                self.assertEqual(len(result["copies"]), 12)
                self.assertTrue(all(copy["bytes_different"] == 0 for copy in result["copies"]))

    def test_text_is_a_table_with_a_bar_for_each_rate(self):
        out = self.assert_success(berth("copy", *SMALL, "--check", env=TWO)).out
        self.assertRegex(out, r"(?m)^copy +host +size +GB/s")
        self.assertRegex(out, r"(?m)^in +pageable +4\.00 KiB +[0-9.e+-]+ +#* *right$")
        self.assertRegex(out, r"(?m)^within +1\.00 MiB +[0-9.e+-]+ +#* *right$")
        self.assertIn("#" * 30, out)
        self.assertTrue(all(len(line) <= 80 for line in out.splitlines()), out)

    def test_a_machine_with_one_device_has_no_peer(self):
        one = {"BERTH_SIM": "devices=1"}
        result = self.assert_success(berth("copy", *SMALL, "--json", env=one)).json()
        self.assertNotIn("peer", [copy["direction"] for copy in result["copies"]])
        self.assert_error(berth("copy", "--directions", "peer", env=one), 3, "second device")

    def test_a_size_that_no_memory_has_is_named(self):
        for kind in ("pageable", "pinned"):
            for size, words in (("99TiB", "99.0 TiB"), ("9999999TiB", "TiB")):
                with self.subTest(kind=kind, size=size):
                    outcome = berth("copy", "--kinds", kind, "--directions", "in", "--sizes", size)
                    self.assertEqual(outcome.exit_code, 1, outcome.story)
                    # A sanitizer's malloc has its own words on such a size, before it gives null.
                    self.assertRegex(outcome.err, f"(?m)^berth: error: .*{words}")
        self.assert_error(
            berth("copy", "--directions", "within", "--sizes", "99TiB"), 1, "99.0 TiB"
        )

    def test_what_is_not_accepted_is_named(self):
        for arguments, words in (
            (("--sizes", "1MiB,many"), ("--sizes", "many")),
            (("--sizes", "1KiB,"), ("--sizes", "an entry of '1KiB,' is empty")),
            (("--kinds", ",pinned"), ("--kinds", "an entry of ',pinned' is empty")),
            (("--sizes", "0"), ("--sizes", "1 B or more")),
            (("--directions", "up"), ("--directions", "up", "in, out, within, peer")),
            (("--kinds", "managed"), ("--kinds", "managed", "pageable, pinned")),
            (("--device", "cpu"), ("cpu",)),
        ):
            with self.subTest(arguments):
                self.assert_error(berth("copy", *arguments), 2, *words)


if __name__ == "__main__":
    unittest.main()
