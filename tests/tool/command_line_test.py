#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line, the choice of a driver, and output."""

import ctypes
import errno
import os
import resource
import shutil
import struct
import subprocess
import unittest

from berth_command import BERTH, LIBCUDA, MIB, CommandTest, berth

COMMANDS = ("devices", "replay", "copy", "tune", "stats", "demo", "config")
ABOUT_COMMANDS = ("help", "completion")
HOSTILE = "a\x1b[31m\x01" + 100_000 * "x"


def limit(kind, amount):
    resource.setrlimit(kind, (amount, amount))


def refuse_memfd_create():
    """From now on the system call fails with ENOSYS, as in a sandbox. Source: seccomp(2)."""
    load_word, jump_if_equal, result = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.ENOSYS
    number = {"x86_64": 319, "aarch64": 279}[os.uname().machine]
    steps = (
        (load_word, 0, 0, 0),  # the number of the system call
        (jump_if_equal, 0, 1, number),
        (result, 0, 0, refuse),
        (result, 0, 0, allow),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    program = ctypes.create_string_buffer(header)
    set_no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((set_no_new_privileges, 1, 0), (set_seccomp, mode_filter, program)):
        if libc.prctl(*arguments, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


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

    def test_help_is_the_help_of_each_command(self):
        self.assertEqual(self.assert_success(berth("help")).out, berth("--help").out)
        for command in COMMANDS + ABOUT_COMMANDS:
            out = self.assert_success(berth("help", command)).out
            self.assertEqual(out, berth(command, "--help").out)
            self.assertIn(f"Usage: berth {command} ", out)
        self.assert_error(berth("help", "devises"), 2, "devises", *COMMANDS, *ABOUT_COMMANDS)

    def test_arguments_are_quoted_in_one_short_line(self):
        for arguments in (
            (HOSTILE,),
            ("devices", HOSTILE),
            ("devices", "--" + HOSTILE),
            ("devices", "--driver", HOSTILE),
            ("devices", "--driver", "/" + HOSTILE),
            ("replay", HOSTILE),
            ("replay", self.trace, "--device", HOSTILE),
            ("copy", "--directions", HOSTILE),
            ("copy", "--kinds", HOSTILE),
            ("copy", "--repeat", HOSTILE),
            ("stats", "--at", HOSTILE),
            ("stats", "--trace", HOSTILE),
            ("stats", "--trace", self.trace, "--host-memory", HOSTILE),
        ):
            self.assert_printable(berth(*arguments))

    def test_variables_are_quoted_in_one_short_line(self):
        for name, value in (
            ("BERTH_SIM", HOSTILE),
            ("BERTH_SIM", "devices=" + HOSTILE),
            ("BERTH_SIM", "faults=" + HOSTILE),
            ("BERTH_CONF", HOSTILE),
            ("BERTH_CONF", "driver=" + HOSTILE),
            ("BERTH_DRIVER", HOSTILE),
            ("CUDA_VISIBLE_DEVICES", HOSTILE),
            ("CUDA_VISIBLE_DEVICES", "0,GPU-" + HOSTILE),
        ):
            self.assert_printable(berth("devices", "--explain", env={name: value}))

    def assert_printable(self, outcome):
        written = outcome.out + outcome.err
        self.assertNotRegex(written, "[\x00-\x08\x0b-\x1f\x7f]", ascii(outcome.story[:2000]))
        self.assertLess(len(written), 4000, ascii(outcome.story[:2000]))
        self.assertNotEqual(written, "")

    def test_version(self):
        self.assertRegex(self.assert_success(berth("--version")).out, r"^berth \d+\.\d+\.\d+\n$")

    def test_no_command(self):
        self.assert_error(berth(), 2, "no command", *COMMANDS, *ABOUT_COMMANDS)

    def test_an_unknown_command(self):
        self.assert_error(berth("devises"), 2, "'devises'", *COMMANDS)

    def test_an_unknown_option(self):
        self.assert_error(berth("devices", "--jsom"), 2, "'--jsom'", "--json", "--driver")

    def test_an_argument_too_many(self):
        self.assert_error(berth("devices", "cuda:0"), 2, "'cuda:0'")

    def test_a_missing_argument(self):
        self.assert_error(berth("replay"), 2, "TRACE", "berth replay --help")


class Shells(CommandTest):
    def options_of(self, command):
        """What --help lists: the parser's own options."""
        words = berth(command, "--help").out.replace(",", " ").split()
        return {word for word in words if word.startswith("--") and word != "--"}

    def complete(self, *words):
        """What bash offers for the last of the words behind `berth`."""
        program = (
            'source "$1"; shift; COMP_WORDS=(berth "$@"); COMP_CWORD=$#; _berth;'
            ' printf "%s\\n" "${COMPREPLY[@]}"'
        )
        script = self.write("berth.bash", self.assert_success(berth("completion", "bash")).out)
        process = subprocess.run(
            ["bash", "-euc", program, "bash", script, *words],
            text=True,
            capture_output=True,
            check=True,
            cwd=self.folder,
        )
        self.assertEqual(process.stderr, "")
        return process.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes_what_the_parser_accepts(self):
        self.assertLessEqual({*COMMANDS, *ABOUT_COMMANDS}, set(self.complete("")))
        self.assertEqual(self.complete("dev"), ["devices"])
        for command in COMMANDS:
            offered = set(self.complete(command, "--"))
            self.assertEqual(offered, self.options_of(command) & offered)
            self.assertLessEqual({"--help", "--driver", "--json"}, offered)
        self.assertEqual(self.complete("stats", "--at", ""), ["peak", "end"])
        self.assertEqual(self.complete("stats", "--trace", "sm"), ["small.csv"])
        self.assertEqual(self.complete("replay", "sm"), ["small.csv"])
        self.assertEqual(self.complete("replay", "--limit", ""), [])
        self.assertEqual(self.complete("devices", "--driver", "si"), ["sim"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertIn("replay", self.complete("help", ""))

    def test_every_shell_and_the_man_page_have_every_option(self):
        scripts = {
            "zsh": self.assert_success(berth("completion", "zsh")).out,
            "fish": self.assert_success(berth("completion", "fish")).out,
            "man": self.assert_success(berth("help", "--man")).out.replace("\\-", "-"),
        }
        for command in COMMANDS:
            options = set(self.complete(command, "--"))
            for shell, script in scripts.items():
                self.assertRegex(script, rf"(?m)^.*\b{command}\b", shell)
            for option in options:
                self.assertIn(f"'{option}[", scripts["zsh"])
                self.assertRegex(scripts["fish"], rf"from {command}'.* -l {option[2:]} ")
                self.assertRegex(scripts["man"], rf'(?m)^\.B ".*{option}\b')
        for shell in ("zsh", "fish"):
            if shutil.which(shell):
                script = self.write("berth." + shell, scripts[shell])
                subprocess.run([shell, "-n", script], check=True)

    def test_an_unknown_shell(self):
        self.assert_error(berth("completion", "csh"), 2, "csh", "bash,zsh,fish")
        self.assert_error(berth("completion"), 2, "SHELL")

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_the_man_page_is_clean(self):
        page = berth("help", "--man").out
        process = subprocess.run(
            ["groff", "-man", "-Tascii", "-ww"], input=page, text=True, capture_output=True
        )
        self.assertEqual((process.returncode, process.stderr), (0, ""))


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

    def test_an_unusable_driver_exits_with_3_everywhere(self):
        missing = os.path.join(self.folder, "libmissing.so")
        for arguments in (("replay", self.trace), *((c,) for c in COMMANDS if c != "replay")):
            for more in ((), ("--json",)):
                outcome = berth(*arguments, "--driver", missing, *more)
                self.assert_error(outcome, 3, missing, "--driver sim")
                self.assertEqual(outcome.out, "")

    def test_the_driver_line_wraps(self):
        missing = os.path.join(self.folder, "lib" + 90 * "m" + ".so")
        for command in ("devices", "config"):
            driver = berth(command, env={"BERTH_DRIVER": missing}).out.split("\n\n")[0]
            self.assertIn("mmm.so", driver)
            for line in driver.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_problem_is_null_or_a_text_in_every_json(self):
        missing = {"BERTH_DRIVER": os.path.join(self.folder, "libmissing.so")}
        for env, kind in (({}, type(None)), (missing, str)):
            for command in ("devices", "stats"):
                driver = berth(command, "--json", env=env).json()["driver"]
                self.assertIsInstance(driver["problem"], kind, command)

    def test_without_a_driver_there_are_no_devices_and_that_is_fine(self):
        missing = {"BERTH_DRIVER": os.path.join(self.folder, "libmissing.so")}
        out = self.assert_success(berth("devices", env=missing)).out
        self.assertRegex(
            out,
            r"(?s)^driver: none\s\(.*libmissing\.so.*\)\n"
            r"versions: driver none, built with the headers of CUDA [0-9.]+\nno devices\n$",
        )
        outcome = berth("devices", "--json", env=missing)
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

    def test_the_exit_code_stays_when_standard_error_cannot_be_written(self):
        closed = 'exec 2>&-; exec "$@"'
        unusable = ("demo", "--driver", "/none/x")
        for arguments, code in ((("frob",), 2), (unusable, 3), (("replay", "/none"), 1)):
            with open("/dev/full", "w") as full:
                self.assertEqual(berth(*arguments, stderr=full).exit_code, code)
            command = ["sh", "-c", closed, "sh", BERTH, *arguments]
            env = os.environ | {"BERTH_DRIVER": "sim"}
            process = subprocess.run(command, stdout=subprocess.DEVNULL, env=env)
            self.assertEqual(process.returncode, code)

    def test_a_host_that_refuses_the_simulators_memory_is_named(self):
        refusals = {
            "ftruncate (ulimit -f): ": lambda: limit(resource.RLIMIT_FSIZE, MIB),
            "memfd_create: ": refuse_memfd_create,
        }
        for said, refuse in refusals.items():
            # With the signal ignored, as Python does for itself, ftruncate fails.
            outcome = berth("replay", self.trace, preexec_fn=refuse, restore_signals=False)
            self.assertEqual(outcome.exit_code, 0, outcome.story)
            self.assertIn("simulator: the host provides no 80.0 GiB", outcome.err, outcome.story)
            self.assertIn(said, outcome.err, outcome.story)

    def test_a_limit_of_the_address_space_is_named(self):
        def refuse():
            limit(resource.RLIMIT_AS, 60 * 1024 * MIB)

        if berth("--version", preexec_fn=refuse).exit_code != 0:
            self.skipTest("a sanitizer reserves more address space than the limit")
        outcome = berth("replay", self.trace, preexec_fn=refuse)
        self.assert_error(
            outcome, 1, "80.0 GiB of address space", "60.0 GiB in all (ulimit -v)", "accepted:"
        )

    def test_a_full_disk_is(self):
        with open("/dev/full", "w") as full:
            outcome = berth("devices", stdout=full)
        self.assertEqual(outcome.exit_code, 1)
        self.assertRegex(outcome.err, r"^berth: error: standard output: .+\n$")


if __name__ == "__main__":
    unittest.main()
