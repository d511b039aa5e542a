#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line, the choice of a driver, and output."""

import os
import unittest

from berth_command import LIBCUDA, CommandTest, berth

COMMANDS = ("devices", "replay", "copy", "stats", "demo", "config")


class CommandLine(CommandTest):
    def test_every_help_has_examples_and_exit_codes(self):
        for command in COMMANDS:
            out = self.assert_success(berth(command, "--help")).out
            self.assertRegex(out, rf"Examples:\n(.*\n)*? +(\w+=\S+ )?berth {command}", command)
            self.assertIn("Exit code: 0", out, command)
            for option in ("--driver", "--json"):
                self.assertIn(option, out, command)
            for line in out.splitlines():
                self.assertLessEqual(len(line), 80, f"{command} --help: {line}")

    def test_the_top_help_names_every_command(self):
        out = self.assert_success(berth("--help")).out
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command} ")
        self.assertIn("Examples:", out)

    def test_version(self):
        self.assertRegex(self.assert_success(berth("--version")).out, r"^berth \d+\.\d+\.\d+\n$")

    def test_no_command(self):
        self.assert_error(berth(), 2, "no command", *COMMANDS)

    def test_an_unknown_command(self):
        self.assert_error(berth("devises"), 2, "'devises'", *COMMANDS)

    def test_an_unknown_option(self):
        self.assert_error(berth("devices", "--jsom"), 2, "'--jsom'", "--json", "--driver")

    def test_an_argument_too_many(self):
        self.assert_error(berth("devices", "cuda:0"), 2, "'cuda:0'")

    def test_a_missing_argument(self):
        self.assert_error(berth("replay"), 2, "TRACE", "berth replay --help")


class Driver(CommandTest):
    def test_an_unknown_driver_is_a_usage_error_wherever_it_is_named(self):
        accepted = ('"simm"', "cuda, sim, auto", "path")
        for command in ("devices", "stats", "demo"):
            self.assert_error(berth(command, "--driver", "simm"), 2, *accepted)
            outcome = berth(command, env={"BERTH_DRIVER": "simm"})
            self.assert_error(outcome, 2, "BERTH_DRIVER", *accepted)
        self.assert_error(berth("replay", self.trace, "--driver", "simm"), 2, *accepted)

    def test_the_option_wins_over_the_environment(self):
        outcome = berth("devices", "--driver", "sim", env={"BERTH_DRIVER": "/none/libcuda.so"})
        self.assertRegex(self.assert_success(outcome).out, r"^driver: sim \(simulated, as --driver")

    def test_the_line_says_who_asked_for_the_simulator(self):
        self.assertRegex(
            berth("devices").out, r"^driver: sim \(simulated, as BERTH_DRIVER says\)\n"
        )

    def test_auto_is_the_default(self):
        out = self.assert_success(berth("devices", env={"BERTH_DRIVER": None})).out
        self.assertRegex(
            out, r"(?s)^driver: (sim \(simulated; no CUDA .+\)|cuda \(CUDA \d+\.\d\))\n"
        )

    def test_a_driver_library_is_named_by_its_path(self):
        out = self.assert_success(berth("replay", self.trace, "--driver", LIBCUDA)).out
        self.assertTrue(out.startswith(f"driver: {LIBCUDA} (CUDA 13.0)\n"), out)

    def test_a_library_that_is_none_is_no_device(self):
        library = self.write("libcuda.so.1", "not a library")
        for arguments in (("replay", self.trace), ("demo",), ("stats", "--trace", self.trace)):
            self.assert_error(berth(*arguments, "--driver", library), 3, library)

    def test_without_a_driver_there_are_no_devices_and_that_is_fine(self):
        missing = os.path.join(self.folder, "libmissing.so")
        out = self.assert_success(berth("devices", "--driver", missing)).out
        self.assertRegex(
            out,
            r"(?s)^driver: none \(.*libmissing\.so.*\)\n"
            r"versions: driver none, built with the headers of CUDA [0-9.]+\nno devices\n$",
        )
        outcome = berth("devices", "--driver", missing, "--json")
        self.assertEqual(self.assert_success(outcome, quiet=False).json()["devices"], [])
        self.assertRegex(outcome.err, r"^berth: warning: no devices: .*libmissing\.so.*\n$")

    def test_a_malformed_simulator_is_a_usage_error(self):
        for command in (("devices",), ("replay", self.trace), ("stats",), ("demo",)):
            outcome = berth(*command, env={"BERTH_SIM": "devices=none"})
            self.assert_error(outcome, 2, "devices", "none", "1 to 64")


class Output(CommandTest):
    def test_a_reader_that_goes_away_is_no_failure(self):
        for command in (("devices",), ("devices", "--json"), ("replay", self.trace), ("demo",)):
            reader, writer = os.pipe()
            os.close(reader)
            try:
                outcome = berth(*command, stdout=writer)
            finally:
                os.close(writer)
            self.assertEqual((outcome.exit_code, outcome.err), (0, ""), command)

    def test_a_full_disk_is(self):
        with open("/dev/full", "w") as full:
            outcome = berth("devices", stdout=full)
        self.assertEqual(outcome.exit_code, 1)
        self.assertRegex(outcome.err, r"^berth: error: standard output: .+\n$")


if __name__ == "__main__":
    unittest.main()
