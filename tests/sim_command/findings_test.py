#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth sim`: which findings are reported, from which processes, and what is ignored."""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from sim_program import CASES, FOLDER, SimTest, environment, masked


class Findings(SimTest):
    def test_a_race_is_found_and_its_right_version_is_silent(self):
        outcome = self.cases("race")
        (found,) = self.assert_findings(outcome, "race")
        self.assertIn("berth sim: 1 finding\n  race: cuMemcpyDtoHAsync", outcome.err)
        self.assertIn("nothing orders the one after the other", found["text"])
        self.assertEqual([use["call"] for use in found["uses"]],
                         ["cuMemsetD8Async", "cuMemcpyDtoHAsync"])
        self.assertEqual([use["does"] for use in found["uses"]], ["writes", "reads"])
        self.assertEqual([use["bytes"] for use in found["uses"]], [1 << 20, 1 << 20])
        self.assert_findings(self.cases("ordered"))

    def test_a_race_inside_a_graph_names_both_nodes_and_is_one_finding_for_all_launches(self):
        outcome = self.cases("graph-race")
        (found,) = self.assert_findings(outcome, "race")
        self.assertRegex(masked(found["text"]),
                         r"race: the fill of cuMemsetD8Async \(call \d+\) writes \d+ B at "
                         r"0x\.\.\., while the fill of cuMemsetD8Async \(call \d+\) writes \d+ B "
                         r"at 0x\.\.\.; both are in graph 0x\.\.\., "
                         r"launched by cuGraphLaunch \(call \d+\) on "
                         r"stream 0x\.\.\., and nothing orders the one after the other")
        lines = re.findall(r"cases\.c:(\d+) in graph_race", outcome.err)
        self.assertEqual(len(set(lines)), 2, outcome.story)
        self.assertEqual([use["call"] for use in found["uses"]], ["cuMemsetD8Async"] * 2)
        self.assert_findings(self.cases("graph-race", options=("--call-sites", "off")), "race")

    def test_memory_that_nvtx_has_named_is_named(self):
        outcome = self.cases("named-race")
        (found,) = self.assert_findings(outcome, "race")
        if "without NVTX" in outcome.err:
            self.skipTest("the CUDA headers here have no nvtx3/nvToolsExtMem.h")
        self.assertEqual(found["text"].count(" (batch)"), 2, outcome.story)

    def test_a_tool_for_nvtx_that_the_user_has_chosen_stays(self):
        outcome = self.cases("named-race", env={"NVTX_INJECTION64_PATH": "/no/tool"})
        (found,) = self.assert_findings(outcome, "race")
        self.assertNotIn("(batch)", found["text"])

    def test_the_program_does_not_print_what_the_report_has(self):
        self.assertEqual(self.cases("race").err.count("race: "), 1)

    def test_a_finding_without_uses(self):
        (found,) = self.assert_findings(self.cases("leak", options=("--call-sites", "off")), "leak")
        self.assertEqual(found["uses"], [])

    def test_a_mistake_in_a_loop_is_one_finding_and_hides_no_other(self):
        self.assert_findings(self.cases("loop", "two-fills"), "race", "race")

    def test_without_call_sites_a_loop_is_one_finding_too(self):
        outcome = self.cases("loop", options=("--call-sites", "off"))
        (found,) = self.assert_findings(outcome, "race")
        self.assertEqual(found["uses"][0]["frames"], [])
        self.assertNotIn("did not keep", outcome.err)

    def test_findings_that_are_not_kept_fail_the_command(self):
        ignore = self.write("ignore.txt", "race: # all of them\n")
        options = ("--call-sites", "off", "--ignore", ignore)
        outcome = self.cases("many", options=options)
        self.assertEqual((outcome.exit_code, outcome.report["exit_code"]), (1, 1), outcome.story)
        self.assertIn("berth sim: no findings, but some may be lost\n", outcome.err)
        self.assertIn("1 process had more than 100 different findings, and did not keep at least "
                      "16: the exit code is not 0\n", outcome.err)
        self.assertEqual(outcome.report["dropped_findings"], 16)
        self.assertEqual(len(outcome.report["findings"]), 100)
        self.assertEqual(self.cases("many", "exit=5", options=options).exit_code, 5)

    def test_a_repeated_mistake_leaves_room_for_another(self):
        outcome = self.cases("loop", "two-fills", options=("--call-sites", "off"))
        self.assert_findings(outcome, "race", "race")
        self.assertEqual(outcome.report["dropped_findings"], 0)

    def test_two_mistakes_are_two_findings(self):
        self.assert_findings(self.cases("race", "two-fills"), "race", "race")

    def test_a_process_that_crashes_or_is_killed_leaves_its_findings(self):
        for case, number in (("crash", signal.SIGSEGV), ("kill", signal.SIGKILL)):
            outcome = self.cases("race", case)
            self.assertEqual(outcome.exit_code, 128 + number, outcome.story)
            self.assertEqual(len(outcome.report["findings"]), 1, outcome.story)

    def test_findings_of_children_and_of_later_programs_count(self):
        self.assert_findings(self.cases("race-in-child"), "race")
        self.assert_findings(self.cases("exec"), "race")
        shell = ["sh", "-c", f"{CASES} ordered; {CASES} race & wait"]
        (found,) = self.assert_findings(self.sim(program=shell), "race")
        self.assertEqual(len(found["pids"]), 1)

    def test_many_processes_write_at_once(self):
        shell = ["sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do {CASES} race two-fills & done; wait"]
        outcome = self.sim(program=shell)
        for found in self.assert_findings(outcome, "race", "race"):
            self.assertEqual(len(found["pids"]), 8)
        self.assertEqual(outcome.report["processes"], 8)
        self.assertNotIn("cannot be read", outcome.err)

    def test_abort_ends_the_program_at_the_finding(self):
        outcome = self.cases("race", "exit=3", options=("--on-finding", "abort"))
        self.assertEqual(outcome.exit_code, 128 + signal.SIGABRT, outcome.story)
        self.assertIn("simulated driver: race:", outcome.err)
        self.assertEqual(len(outcome.report["findings"]), 1)
        outcome = self.cases("ordered", "exit=3", options=("--on-finding", "abort"))
        self.assertEqual(outcome.exit_code, 3, outcome.story)

    def test_checks_choose_what_is_looked_for(self):
        for checks, kinds in (
            ("race", ["race"]),
            ("leak", ["leak"]),
            ("race,leak", ["race", "leak"]),
            ("aliasing", []),
            ("off", []),
        ):
            outcome = self.cases("race", "leak", options=("--checks", checks))
            self.assert_findings(outcome, *kinds)

    def test_no_findings_are_told_with_what_was_not_looked_for(self):
        for checks, text in (
            ("aliasing,leak,fault", "; races were not checked"),
            ("leak", "; races, aliasing and faults were not checked"),
            ("race,leak,fault", "; aliasing was not checked"),
            ("off", "; races, aliasing, leaks and faults were not checked"),
            ("on", ""),
        ):
            outcome = self.cases("ordered", options=("--checks", checks))
            self.assertEqual(outcome.err, f"berth sim: no findings{text}\n")
        outcome = self.cases("ordered", env={"BERTH_SIM": "checks=race/leak/fault"})
        self.assertEqual(outcome.report["not_checked"], ["aliasing"])
        self.assertIn("no findings; aliasing was not checked\n", outcome.err)

    def test_without_the_command_the_findings_go_to_standard_error(self):
        env = environment({"LD_LIBRARY_PATH": FOLDER})
        process = subprocess.run([CASES, "race"], env=env, text=True, capture_output=True)
        self.assertEqual(process.returncode, 0)
        self.assertIn("simulated driver: race:", process.stderr)
        lost = environment({"LD_LIBRARY_PATH": FOLDER, "BERTH_SIM_FINDINGS": "/nowhere/file"})
        process = subprocess.run([CASES, "race"], env=lost, text=True, capture_output=True)
        self.assertIn("simulated driver: race:", process.stderr)

    def test_a_line_that_a_killed_process_did_not_finish(self):
        """Costs that line alone, and is told."""
        script = f"printf '\\n{{\"record\":\"find' >> $BERTH_SIM_FINDINGS; {CASES} race"
        outcome = self.sim(program=["sh", "-c", script])
        self.assert_findings(outcome, "race")
        self.assertIn("1 line in the findings of a process that was killed", outcome.err)
        self.assertEqual(outcome.report["unreadable_lines"], 1)

    def test_a_line_that_cannot_be_read_may_be_a_finding(self):
        script = "printf '{\"record\":\"find' >> $BERTH_SIM_FINDINGS"
        outcome = self.sim(program=["sh", "-c", script])
        self.assertEqual(outcome.exit_code, 1, outcome.story)
        self.assertIn("berth sim: no findings, but some may be lost\n", outcome.err)


class Faults(SimTest):
    def test_work_on_freed_memory_is_a_finding_with_the_free(self):
        log = os.path.join(self.folder, "log")
        outcome = self.cases("graph-after-free", options=("--log", log))
        (found,) = self.assert_findings(outcome, "fault")
        self.assertRegex(masked(found["text"]),
                         r"fault: the fill of cuMemsetD8Async \(call \d+\) in graph 0x\.\.\., "
                         r"launched by cuGraphLaunch \(call \d+\), on stream 0x\.\.\. writes "
                         r"1048576 B at 0x\.\.\.; cuMemFree \(call \d+\) has ended that memory; "
                         r"calls of its context return CUDA_ERROR_ILLEGAL_ADDRESS from then on")
        self.assertEqual([(use["call"], use["does"]) for use in found["uses"]],
                         [("cuMemFree", "frees"), ("cuMemsetD8Async", "writes")])
        self.assertRegex(outcome.err, r"cuMemFree frees +\S*cases.c:\d+ in graph_after_free")
        with open(log, encoding="utf-8") as file:
            lines = file.read()
        self.assertIn("faults: fill of 1048576 B", lines)
        self.assertNotIn("is done: fill", lines)
        self.assertIn("found: fault", lines)

    def test_checks_can_leave_faults_out(self):
        self.assert_findings(self.cases("graph-after-free", options=("--checks", "race")))

    def test_memory_of_a_pool_after_a_free_that_nothing_orders(self):
        outcome = self.cases("pool-after-free")
        (found,) = self.assert_findings(outcome, "fault")
        self.assertIn("cuMemFreeAsync", found["text"])
        outcome = self.cases("pool-after-free", options=("--seeds", "30"))
        found = {finding["kind"]: finding for finding in outcome.report["findings"]}
        self.assertEqual(sorted(found), ["fault", "race"], outcome.story)
        seeds = [seed for finding in found.values() for seed in finding["seeds"]]
        self.assertEqual(sorted(seeds), list(range(1, 31)), "no seed is without a finding")

    def test_calls_that_a_plan_fails_are_no_findings(self):
        options = ("--faults", "cuStreamQuery@1=illegal_address;cuMemFree@1=illegal_address")
        self.assert_findings(self.cases("refused", options=options))


class ExitHandlers(SimTest):
    def test_what_lives_until_exit_handlers_release_it_is_no_leak(self):
        self.assert_findings(self.cases("release-at-exit"))
        self.assert_findings(self.cases("release-at-exit", "exit=0"))

    def test_handlers_of_python_are_exit_handlers_too(self):
        program = (
            "import atexit, ctypes\n"
            "cuda, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()\n"
            "cuda.cuInit(0)\n"
            "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n"
            "cuda.cuCtxSetCurrent(context)\n"
            "cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), 4096)\n"
        )
        release = "cuda.cuDevicePrimaryCtxRelease_v2"
        late = self.sim(program=[sys.executable, "-c", program + f"atexit.register({release}, 0)"])
        self.assert_findings(late)
        early = self.sim(program=[sys.executable, "-c", program + f"{release}(0)"])
        self.assert_findings(early, "leak")


class FailedCalls(SimTest):
    def test_their_number_and_the_first_are_told(self):
        log = os.path.join(self.folder, "log")
        outcome = self.cases("refused", options=("--log", log))
        self.assert_findings(outcome)
        self.assertRegex(
            outcome.err,
            r"berth sim: 2 calls of the driver failed; the first: cuMemFree \(call \d+\), "
            r"CUDA_ERROR_INVALID_VALUE, at \S*cases.c:\d+ in refused\n",
        )
        self.assertEqual(outcome.report["failed_calls"], 2)
        with open(log, encoding="utf-8") as file:
            self.assertRegex(file.read(), r"call \d+ cuMemFree fails: CUDA_ERROR_INVALID_VALUE\n")

    def test_a_query_of_pending_work_has_not_failed(self):
        outcome = self.cases("sometimes", options=("--seeds", "5", "--checks", "off"))
        self.assertEqual(outcome.report["failed_calls"], 0, outcome.story)


class Ignore(SimTest):
    def ignoring(self, text, *cases):
        return self.cases(*cases, options=("--ignore", self.write("ignore.txt", text)))

    def test_a_finding_that_is_ignored_does_not_count(self):
        text = "# about this file\n\nrace: cuMemcpyDtoHAsync*reads # the bytes are thrown away\n"
        outcome = self.ignoring(text, "race")
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        self.assertIn("no findings\n", outcome.err)
        self.assertIn("ignore.txt:3: 1 finding ignored: the bytes are thrown away\n", outcome.err)
        self.assertEqual(outcome.report["findings"][0]["ignored"], "the bytes are thrown away")
        outcome = self.ignoring(text, "race", "two-fills")
        self.assertEqual(outcome.exit_code, 1, outcome.story)
        self.assertIn("berth sim: 1 finding\n", outcome.err)

    def test_a_call_site_can_be_ignored(self):
        outcome = self.ignoring("in two_fills # known\n", "race", "two-fills")
        self.assertEqual(outcome.err.count("  race: "), 1, outcome.story)
        self.assertNotIn("two_fills", outcome.err.split("ignore.txt")[0])

    @unittest.skipUnless(shutil.which("addr2line"), "no addr2line")
    def test_the_example_of_the_page_ignores_a_place(self):
        page = os.path.join(os.environ["BERTH_SOURCE_ROOT"], "docs", "simulator.md")
        with open(page, encoding="utf-8") as file:
            (line,) = re.findall(r"`(race: [^`]* # [^`]*)`", file.read())
        outcome = self.ignoring(line + "\n", "warm-up")
        self.assertEqual(outcome.exit_code, 0, outcome.story)
        self.assertEqual(len(outcome.report["findings"]), 1)
        self.assertEqual(self.ignoring(line + "\n", "race").exit_code, 1)

    def test_a_pattern_that_matches_nothing_is_told(self):
        outcome = self.ignoring("race: cuMemcpyDtoHAsync*writes*reads # old\n", "race")
        self.assertEqual(outcome.exit_code, 1, outcome.story)
        self.assertIn("ignore.txt:1: no finding matches 'race: cuMemcpyDtoHAsync*writes*reads'",
                      outcome.err)


class Json(SimTest):
    def test_shape(self):
        outcome = self.cases("race", options=("--seeds", "2", "--devices", "2"))
        report = outcome.report
        self.assertEqual(
            list(report),
            ["exit_code", "configuration", "findings", "runs", "processes", "nvidia_runtime",
             "skipped_launches", "unrun_operations", "failed_calls", "dropped_findings",
             "unreadable_lines", "not_checked", "inner_commands"],
        )
        self.assertEqual(report["exit_code"], 1)
        self.assertIn("devices=2", report["configuration"])
        self.assertEqual(
            report["runs"],
            [{"seed": seed, "exit_code": 0, "signal": None} for seed in (1, 2)],
        )
        (found,) = report["findings"]
        self.assertEqual(list(found), ["kind", "text", "uses", "seeds", "pids", "ignored"])
        self.assertEqual(list(found["uses"][0]), ["call", "does", "bytes", "frames"])
        self.assertEqual(
            list(found["uses"][0]["frames"][0]), ["file", "line", "function", "module", "offset"]
        )
        self.assertIsNone(found["ignored"])

    def test_names_that_are_no_utf_8(self):
        shutil.copy(CASES, os.path.join(self.folder.encode(), b"\xff\xfe"))
        script = 'exec "$0/$(printf "\\377\\376")" race'
        outcome = self.sim(program=["sh", "-c", script, self.folder])
        (found,) = self.assert_findings(outcome, "race")
        self.assertIn("\ufffd", found["uses"][0]["frames"][0]["module"])


if __name__ == "__main__":
    unittest.main()
