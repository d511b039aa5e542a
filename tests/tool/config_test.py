#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth config`, and BERTH_CONF with the other commands."""

import unittest

from berth_command import MIB, CommandTest, berth


class Config(CommandTest):
    def entries(self, **options):
        entries = self.assert_success(berth("config", "--json", **options)).json()
        return {entry["key"]: entry for entry in entries}

    def test_json_has_every_key_with_its_value_its_default_and_what_is_accepted(self):
        entries = self.entries(env={"BERTH_CONF": "bytes_reserved_max=90%, staging_slots=4"})
        for key, entry in entries.items():
            self.assertEqual(list(entry), ["key", "value", "default", "accepted"])
            self.assertTrue(entry["accepted"], key)
        self.assertEqual(entries["bytes_reserved_max"]["value"], "90%")
        self.assertEqual(entries["bytes_reserved_max"]["default"], "none")
        self.assertEqual(entries["staging_slots"]["value"], "4")
        self.assertEqual(entries["driver"]["value"], "sim")
        changed = {key for key, entry in entries.items() if entry["value"] != entry["default"]}
        self.assertEqual(changed, {"driver", "bytes_reserved_max", "staging_slots"})

    def test_what_it_shows_is_a_configuration(self):
        shown = {"release_unused_after": "90s", "virtual_memory": "off", "segment_bytes": "6MiB"}
        text = ",".join(f"{key}={value}" for key, value in shown.items())
        first = self.entries(env={"BERTH_CONF": text})
        text = ",".join(f"{key}={entry['value']}" for key, entry in first.items())
        self.assertEqual(self.entries(env={"BERTH_CONF": text}), first)
        self.assertEqual({key: first[key]["value"] for key in shown}, shown)

    def test_text_fits_80_columns_and_has_every_key(self):
        out = self.assert_success(berth("config", env={"BERTH_CONF": "headroom_bytes=5%"})).out
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)
        self.assertRegex(out, r"(?m)^headroom_bytes +5% +0$")
        for key, entry in self.entries().items():
            self.assertRegex(out, rf"(?m)^{key} ")
            self.assertIn(f" {entry['accepted']}\n", out.replace("\n  ", " "))  # wrapped

    def test_without_a_driver_it_is_shown_all_the_same(self):
        driver = "/none/libcuda.so"
        self.assertEqual(self.entries(env={"BERTH_DRIVER": driver})["driver"]["value"], driver)


class Variable(CommandTest):
    def test_all_that_is_wrong_with_it_is_one_usage_error(self):
        env = {"BERTH_CONF": "granul_bytes=2MiB,streams_max=none,"}
        words = ("BERTH_CONF: ", '"granul_bytes", perhaps granule_bytes', 'streams_max="none"')
        for command in (("config",), ("devices",), ("stats",), ("replay", self.trace), ("demo",)):
            self.assert_error(berth(*command, env=env), 2, *words, "entry 3 of 3 is empty")

    def test_the_command_line_goes_before_it_and_it_before_the_driver_variable(self):
        env = {"BERTH_CONF": "driver=sim", "BERTH_DRIVER": "/none/libcuda.so"}
        out = self.assert_success(berth("devices", env=env)).out
        self.assertRegex(out, r"^driver: sim \(simulated, as BERTH_CONF says\)\n")
        self.assert_error(
            berth("devices", "--driver", "/none/other.so", env=env), 3, "/none/other.so"
        )
        out = self.assert_success(berth("devices", "--driver", "sim", env=env)).out
        self.assertRegex(out, r"^driver: sim \(simulated, as --driver says\)\n")

    def refused(self, *arguments, env):
        (result,) = self.assert_success(
            berth("replay", "--json", self.trace, *arguments, env=env), quiet=False
        ).json()
        return result["out_of_memory"]

    def test_a_limit_on_the_command_line_goes_before_its_limit(self):
        env = {"BERTH_CONF": f"bytes_reserved_max={2 * MIB}"}
        self.assertGreater(self.refused(env=env), 0)
        self.assertEqual(self.refused("--limit", "64MiB", env=env), 0)

    def test_an_option_leaves_the_rest_of_it(self):
        env = {"BERTH_CONF": f"bytes_reserved_max={2 * MIB}"}
        self.assertGreater(self.refused("--no-virtual-memory", env=env), 0)


if __name__ == "__main__":
    unittest.main()
