#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth sim`: how a program is run, and how that ends."""

import json
import os
import signal
import subprocess
import sys
import unittest

from sim_program import BERTH, CASES, FOLDER, LIBCUDA, SimTest, berth, environment


class Run(SimTest):
    def test_a_program_finds_the_machine_of_the_options(self):
        outcome = self.cases("devices", options=("--devices", "3", "--memory", "2GiB"))
        self.assertEqual(outcome.out, "3 devices of 2048 MiB\n", outcome.story)
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        self.assertEqual(outcome.err, "berth sim: no findings\n", outcome.story)

    def test_options_go_before_BERTH_SIM_which_keeps_the_rest(self):
        env = {"BERTH_SIM": "devices=2, memory=4GiB"}
        outcome = self.cases("devices", options=("--memory", "1GiB"), env=env)
        self.assertEqual(outcome.out, "2 devices of 1024 MiB\n", outcome.story)
        outcome = self.cases("devices", options=("--set", "devices=5", "--set", "name=N"), env=env)
        self.assertEqual(outcome.out, "5 devices of 4096 MiB\n", outcome.story)

    def test_libraries_of_the_program_stay_reachable(self):
        program = ["sh", "-c", 'echo "$LD_LIBRARY_PATH"; echo "$LD_PRELOAD"']
        outcome = self.sim(program=program, env={"LD_LIBRARY_PATH": "/mine"})
        self.assertEqual(outcome.out, f"{FOLDER}:/mine\n\n", outcome.story)
        outcome = self.sim("--preload", program=program, env={"LD_LIBRARY_PATH": None})
        names = ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.13", "libcudart.so.12")
        files = [os.path.join(FOLDER, name) for name in names]
        built = ":".join(file for file in files if os.path.exists(file))
        self.assertEqual(outcome.out, f"{FOLDER}\n{built}\n", outcome.story)

    def test_the_exit_code_is_that_of_the_program(self):
        self.assertEqual(self.cases("ordered", "exit=5").exit_code, 5)
        self.assertEqual(self.cases("race", "exit=6").exit_code, 6)
        self.assertEqual(self.cases("race").exit_code, 1)
        self.assertEqual(self.cases("ordered").exit_code, 0)

    def test_arguments_reach_the_program_as_they_are(self):
        program = ["printf", "[%s]", "--seed", "a b", "--", "", "--help"]
        self.assertEqual(self.sim(program=program).out, "[--seed][a b][--][][--help]")

    def test_input_reaches_the_program(self):
        outcome = self.sim(program=["cat"], input="some text")
        self.assertEqual(outcome.out, "some text")

    def test_a_signal_that_ends_the_program_is_told(self):
        outcome = self.cases("ordered", "crash")
        self.assertEqual(outcome.exit_code, 128 + signal.SIGSEGV, outcome.story)
        self.assertIn("the program was ended by signal 11 (SIGSEGV)", outcome.err)
        self.assertEqual(outcome.report["runs"][0]["signal"], 11)

    def check_ends_by_signal(self, *options):
        command = [BERTH, "sim", *options, "--", CASES, "wait"]
        env = environment({"BERTH_DRIVER": None})
        with subprocess.Popen(
            command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("asked to end\n", 7), err)

    def test_signals_are_handed_on(self):
        self.check_ends_by_signal()

    def test_a_signal_ends_the_row_of_seeds(self):
        self.check_ends_by_signal("--seeds", "5")

    def test_the_program_has_the_signals_of_its_caller(self):
        # `yes` ends by SIGPIPE; it would go on to complain if that were ignored.
        outcome = self.sim(program=["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"])
        self.assertEqual(outcome.out, f"y\n{128 + signal.SIGPIPE}\n", outcome.story)

    def test_a_program_that_is_not_there(self):
        missing = os.path.join(self.folder, "no-program")
        self.assert_error(self.sim(program=[missing]), 127, missing[:20], "No such file")
        self.assert_error(self.sim("--seeds", "9", program=["no-such-program"]), 127)

    def test_a_program_that_cannot_be_executed(self):
        self.assert_error(self.sim(program=[self.trace]), 126, "Permission denied")
        self.assert_error(self.sim(program=[self.folder]), 126, "Permission denied")

    def test_mistakes_are_one_line_and_nothing_is_run(self):
        witness = os.path.join(self.folder, "was-run")
        ignore = self.write("ignore.txt", "race: *\n")
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for options, words in (
            (("--devices", "65"), ("devices", "65", "1 to 64")),
            (("--devices", "1,2"), ("--devices", "comma")),
            (("--memory", "much"), ("memory", "much")),
            (("--seed", "-1"), ("--seed",)),
            (("--seed", str(1 << 64)), ("--seed", "too large", str((1 << 64) - 1))),
            (("--seeds", "0"), ("--seeds",)),
            (("--seed", "1", "--seeds", "2"), ("--seed", "--seeds")),
            (("--checks", "race,sense"), ("checks", "race/sense")),
            (("--faults", "cuNothing=unknown"), ("cuNothing",)),
            (("--set", "colour=red"), ("colour",)),
            (("--set", "devices"), ("--set", "devices", "key=value")),
            (("--on-finding", "laugh"), ("--on-finding",)),
            (("--ignore", ignore), ("ignore.txt:1", "reason")),
            (("--ignore", self.trace + "x"), ("--ignore", "read")),
            (("--ignore", self.trace, "--on-finding", "abort"), ("--ignore", "abort")),
            (("--log", self.folder), ("log",)),
            (("--log", fifo), ("log", "fifo")),
            (("--faults", "cuGetErrorName=unknown"), ("cuGetErrorName", "have no faults")),
            (("--faults", "cuMemAlloc=lost:5"), ("lost:5", "0 to 0")),
            (("--json", self.folder), ("--json", "directory")),
            (("--json", fifo), ("--json", "fifo")),
            (("--ignore", self.folder), ("--ignore", "folder")),
            (("--ignore", fifo), ("--ignore", "pipe")),
            (("--ignore", "/dev/zero"), ("--ignore", "/dev/zero", "device")),
            (("--libraries", self.folder), ("--libraries", self.folder[:20])),
            (("--libraries",), ("--libraries",)),
        ):
            outcome = berth("sim", *options, "--", "touch", witness)
            self.assert_error(outcome, 2, *words)
            self.assertFalse(os.path.exists(witness), options)
        outcome = berth("sim", "--", "touch", witness, env={"BERTH_SIM": "a=b"})
        self.assert_error(outcome, 2, '"a=b"')
        self.assert_error(berth("sim", "touch", witness), 2, "-- PROGRAM")
        self.assert_error(berth("sim"), 2, "-- PROGRAM")
        self.assert_error(berth("sim", "--"), 2, "-- PROGRAM")
        self.assertFalse(os.path.exists(witness))

    def test_a_folder_of_another_driver_is_refused(self):
        source = self.write("other.c", "int cuInit(unsigned f) { return f; }\n")
        library = os.path.join(self.folder, "libcuda.so.1")
        compiler = subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=False)
        if compiler.returncode != 0:
            self.skipTest("no C compiler")
        outcome = berth("sim", "--libraries", self.folder, "--", "true")
        self.assert_error(outcome, 2, "not of the simulated driver")

    def test_a_program_that_calls_nothing_is_told(self):
        outcome = self.cases("nothing")
        self.assertEqual(outcome.exit_code, 0)
        self.assertIn("made no call of the simulated driver", outcome.err)
        self.assertNotIn("made no call", self.cases("devices").err)

    def test_a_program_that_asks_for_the_version_alone_has_found_the_driver(self):
        outcome = self.cases("version", options=("--set", "driver_version=12040"))
        self.assertEqual(outcome.out, "version 12040\n", outcome.story)
        self.assertNotIn("--preload", outcome.err)
        self.assertIn("for its version, 12.4, and made no other call, so nothing was checked\n",
                      outcome.err)
        self.assertNotIn("version", self.cases("version", "ordered").err)

    def test_a_runtime_that_is_newer_than_the_driver_has_found_the_driver(self):
        runtime = os.path.join(FOLDER, "libcudart.so.13")
        if not os.path.exists(runtime):
            self.skipTest("berth's CUDA runtime is not built")
        program = "import ctypes; print(ctypes.CDLL('libcudart.so.13')"
        program += ".cudaGetDeviceCount(ctypes.byref(ctypes.c_int())))"
        outcome = self.sim("--set", "driver_version=12040",
                           program=[sys.executable, "-c", program])
        self.assertEqual(outcome.out, "35\n", outcome.story)
        self.assertNotIn("--preload", outcome.err)

    def test_a_command_inside_another_reports_for_itself(self):
        inner = [BERTH, "sim", "--", CASES, "race"]
        outcome = self.sim(program=["sh", "-c", '"$@"; exit 0', "sh", *inner])
        self.assert_findings(outcome)
        self.assertEqual(outcome.err.count("  race: "), 1, outcome.story)
        self.assertTrue(
            outcome.err.endswith(
                "berth sim: no findings\nberth sim: 1 command `berth sim` ran inside, and reported "
                "findings that are not counted here\n"),
            outcome.story)
        self.assertEqual(outcome.report["inner_commands"], 1)

    def test_a_program_with_nvidias_runtime_is_told(self):
        outcome = self.cases("private-table")
        self.assertEqual(outcome.exit_code, 2, outcome.story)
        self.assertEqual(outcome.report["exit_code"], 2)
        self.assertIn("berth sim: no findings, but calls could not be checked\n", outcome.err)
        self.assertEqual(self.cases("private-table", "exit=5").exit_code, 5)
        self.assertEqual(self.cases("private-table", "race").exit_code, 1)
        self.assertEqual(outcome.err.count("--cudart shared"), 1, outcome.story)
        self.assertIn("sim_command_cases has NVIDIA's CUDA runtime in it", outcome.err)
        self.assertEqual(os.path.basename(outcome.report["nvidia_runtime"]), "sim_command_cases")
        self.assertNotIn("--cudart", self.cases("devices").err)

    def ask_for_private_table(self, name, text):
        library = os.path.join(self.folder, name)
        source = self.write(
            "ask.c",
            f"const char* const text = \"{text}\";\n"
            "int cuGetExportTable(const void** table, const void* id);\n"
            "int ask(void) {\n"
            "  const void* table;\n"
            "  return cuGetExportTable(&table, \"0123456789abcde\");\n}\n",
        )
        compiler = ["cc", "-shared", "-fPIC", source, "-o", library, LIBCUDA]
        if subprocess.run(compiler, check=False).returncode != 0:
            self.skipTest("no C compiler")
        program = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); "
        program += f"ctypes.CDLL({library!r}).ask()"
        return self.sim(program=[sys.executable, "-c", program])

    def test_a_library_with_nvidias_runtime_is_named(self):
        outcome = self.ask_for_private_table("libcublas.so.13", "cudaErrorMissingConfiguration")
        self.assertEqual(outcome.exit_code, 2, outcome.story)
        self.assertEqual(outcome.err.count("libcublas.so.13 has NVIDIA's CUDA runtime in it"), 1)
        self.assertIn("the calls of this library fail", outcome.err)
        self.assertNotIn("--cudart", outcome.err)
        outcome = self.ask_for_private_table("_core.abi3.so", "cudaErrorMissingConfiguration")
        self.assertIn("_core.abi3.so has NVIDIA's CUDA runtime in it", outcome.err)
        self.assertNotIn("--cudart", outcome.err)
        outcome = self.ask_for_private_table("libcudart.so.13", "cudaErrorMissingConfiguration")
        self.assertIn("--preload loads berth's in its place", outcome.err)

    def test_a_library_that_asks_for_a_table_and_has_no_runtime_is_not_named(self):
        outcome = self.ask_for_private_table("libnvJitLink.so.13", "nothing")
        self.assert_findings(outcome)
        self.assertEqual(outcome.err, "berth sim: no findings\n")

    def test_work_that_never_runs_is_counted(self):
        outcome = self.cases("unwaited")
        self.assertEqual(outcome.report["unrun_operations"], 0, outcome.story)
        outcome = self.cases("unwaited", options=("--set", "progress=manual"))
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        line = ("2 operations had not run when the program ended, because nothing waited, and were "
                "not checked")
        self.assertEqual(outcome.err.count(line), 1, outcome.story)
        self.assertEqual(outcome.report["unrun_operations"], 2)

    def test_kernels_are_refused_with_the_reason_or_skipped_with_a_count(self):
        outcome = self.cases("launch")
        self.assertEqual(outcome.exit_code, 9, outcome.story)
        self.assertEqual(outcome.err.count("kernel add was not launched: device code"), 1)
        outcome = self.cases("launch", options=("--kernels", "skip"))
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        line = "results are garbage, because 3 launches of kernels were skipped (kernels=skip)"
        self.assertEqual(outcome.err.count(line), 1, outcome.story)
        self.assertEqual(outcome.report["skipped_launches"], 3)
        outcome = self.cases("launch-graph", options=("--kernels", "skip"))
        self.assertEqual(outcome.err.count(line), 1, outcome.story)
        outcome = self.cases("launch", "kill", options=("--kernels", "skip"))
        self.assertIn("because at least 2 launches", outcome.err)
        outcome = self.cases("launch", options=("--kernels", "host"))
        self.assertIn("no host function stands in for it", outcome.err)
        self.assert_error(berth("sim", "--kernels", "run", "--", "true"), 2, "--kernels")

    def test_faults_and_the_log(self):
        log = os.path.join(self.folder, "log.txt")
        options = ("--faults", "cuMemAlloc@1=out_of_memory", "--log", log)
        outcome = self.cases("ordered", options=options)
        self.assertEqual(outcome.exit_code, 9, outcome.story)
        self.assertIn("error 2", outcome.err)
        with open(log, encoding="utf-8") as file:
            self.assertIn("cuMemAlloc", file.read())

    def test_a_log_without_a_file_goes_to_standard_error(self):
        for options, env in ((("--log", "on"), {}), ((), {"BERTH_SIM": "log=on"})):
            outcome = self.cases("ordered", options=options, env=env)
            self.assertIn("process sim_command_cases, seed 1\n", outcome.err)
            self.assertIn("  call 3 cuMemAlloc\n", outcome.err)
            self.assertIn("is done: fill of 1048576 B\n", outcome.err)

    def test_every_process_and_seed_appends_to_the_log(self):
        log = os.path.join(self.folder, "log.txt")
        heading = "process sim_command_cases, seed"

        def headings():
            with open(log, encoding="utf-8") as file:
                return [int(line.split(f"{heading} ")[1]) for line in file if heading in line]

        self.cases("ordered", "exec", options=("--log", log))
        self.assertEqual(headings(), [1, 1])
        self.cases("ordered", options=("--log", log, "--seeds", "3"))
        self.assertEqual(headings(), [1, 2, 3])  # those of an earlier command are gone

    def test_a_malformed_BERTH_SIM_is_told_once_by_the_driver(self):
        program = "import ctypes\n"
        program += "cuda, nvml = (ctypes.CDLL(n) for n in ('libcuda.so.1', 'libnvidia-ml.so.1'))\n"
        program += "print(cuda.cuInit(0), cuda.cuInit(0), nvml.nvmlInit_v2())"
        env = {"BERTH_SIM": "devices=0", "LD_LIBRARY_PATH": FOLDER, "BERTH_DRIVER": None}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment(env),
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "1 1 9\n")
        line = 'simulated driver: BERTH_SIM: simulator: devices="0" is not accepted'
        self.assertEqual(done.stderr, f"{line}; accepted: 1 to 64\n")

    def test_findings_are_lines_of_json_behind_one_that_was_cut_short(self):
        file = self.write("findings.jsonl", '{"record":')
        env = {"BERTH_SIM_FINDINGS": file, "LD_LIBRARY_PATH": FOLDER, "BERTH_DRIVER": None}
        subprocess.run([CASES, "race"], env=environment(env), check=True)
        with open(file, encoding="utf-8") as lines:
            cut, *records = lines.read().splitlines()
        self.assertEqual(cut, '{"record":')
        self.assertEqual([json.loads(r)["record"] for r in records], ["process", "finding"])

    def test_cuInit_fails_by_plan(self):
        outcome = self.cases("devices", options=("--faults", "cuInit=no_device"))
        self.assertEqual(outcome.exit_code, 9, outcome.story)
        self.assertIn("cuInit(0): error 100\n", outcome.err)

    def test_a_report_is_replaced_by_one_of_a_program_that_ran(self):
        report = self.write("kept.json", "of an earlier run")
        new = os.path.join(self.folder, "new.json")
        for file in (report, new):
            self.assert_error(berth("sim", "--json", file, "--", "/none/program"), 127)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(file.read(), "of an earlier run")
        self.assertFalse(os.path.exists(new))
        self.assertEqual(berth("sim", "--json", report, "--", "true").exit_code, 0)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["findings"], [])

    def test_a_report_replaces_the_file_to_which_a_link_leads(self):
        report = self.write("first.json", "of an earlier run")
        os.chmod(report, 0o640)
        link = os.path.join(self.folder, "link.json")
        os.symlink("first.json", link)
        with open(report, encoding="utf-8") as earlier:
            self.assertEqual(berth("sim", "--json", link, "--", "true").exit_code, 0)
            self.assertEqual(earlier.read(), "of an earlier run")  # never half of one
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(report).st_mode & 0o777, 0o640)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["findings"], [])
        names = {name for name in os.listdir(self.folder) if "json" in name}
        self.assertEqual(names, {"first.json", "link.json"})

    @unittest.skipIf(os.geteuid() == 0, "root may make files in any folder")
    def test_a_report_in_a_folder_without_new_files_is_written_in_place(self):
        folder = os.path.join(self.folder, "closed")
        os.mkdir(folder)
        report = os.path.join(folder, "report.json")
        open(report, "w").close()
        os.chmod(folder, 0o500)
        self.addCleanup(os.chmod, folder, 0o700)
        self.assertEqual(berth("sim", "--json", report, "--", "true").exit_code, 0)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["findings"], [])

    def test_a_report_goes_to_a_pipe_that_is_read(self):
        outcome = berth("sim", "--json", "/dev/stdout", "--", "true")
        self.assertEqual(outcome.json()["findings"], [])

    def test_a_folder_for_temporary_files_that_is_not_there_is_named(self):
        outcome = berth("sim", "--", "true", env={"TMPDIR": "/none/folder"})
        self.assert_error(outcome, 2, "TMPDIR", "'/none/folder'")

    def test_nothing_is_left_behind(self):
        scratch = os.path.join(self.folder, "scratch")
        os.mkdir(scratch)
        self.cases("race", options=("--seeds", "2"), env={"TMPDIR": scratch})
        self.assertEqual(os.listdir(scratch), [])


class Help(SimTest):
    def test_help_has_examples_exit_codes_and_80_columns(self):
        out = self.assert_success(berth("sim", "--help")).out
        self.assertRegex(out, r"Examples:\n(.*\n)*? +berth sim")
        self.assertIn("Exit code: that of the program", out)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_completions_and_the_man_page_have_its_options(self):
        help_text = berth("sim", "--help").out
        options = {word for word in help_text.split() if word.startswith("--") and word[2:]}
        options = {option.rstrip(":,") for option in options} - {"--args", "--"}
        bash = berth("completion", "bash").out
        man = berth("help", "--man").out.replace("\\-", "-")
        for option in options:
            self.assertIn(option, bash)
            self.assertIn(option, man)
        self.assertIn("berth sim", man)


if __name__ == "__main__":
    unittest.main()
