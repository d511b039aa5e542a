#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The campaign with parts that fail, crash and hang on purpose, and one that is interrupted."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
STACKS = None  # libcampaign_stacks.so, where it was built

ROW = 'print(\'{"figure": "f", "row": "r", "value": 1}\', flush=True)'
# Each is what a program does in Python.
GOOD = ROW
FAILS = f"{ROW}\nraise SystemExit('it says why')"
SKIPPED = "raise SystemExit(77)"
CRASHES = f"import os, signal\n{ROW}\nos.kill(os.getpid(), signal.SIGSEGV)"
HANGS = f"import time\n{ROW}\ntime.sleep(1000)"
# As a program that runs others under limits of its own.
HANGS_NESTED = """
import json, subprocess, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(json.dumps({"child": child.pid}), flush=True)
time.sleep(1000)
"""
LEAVES_A_CHILD = f"import subprocess\n{ROW}\nsubprocess.Popen(['sleep', '1000'])"
HALF_A_LINE = f'import os\n{ROW}\nos.write(1, b\'{{"figure": "f"\')\nos.abort()'
# Cases as the contract has them: the third crashes, the fifth hangs.
CASES = """
import json, os, signal, sys, time
first = int(sys.argv[-1][len("--first="):]) if sys.argv[-1].startswith("--first=") else 1
for number in range(first, 8):
    print(json.dumps({"begin": f"case {number}"}), flush=True)
    if number == 3: os.kill(os.getpid(), signal.SIGSEGV)
    if number == 5: time.sleep(1000)
    print(json.dumps({"case": f"case {number}", "outcome": "agrees"}), flush=True)
"""


def part(name, *codes, **more):
    programs = [{"name": f"{name} {index}", "command": ["python3", "-c", code], **more} for index, code in enumerate(codes)]
    return {"name": name, "seconds": 60, "says": f"what {name} says", "programs": programs}


def is_running(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # what nobody has waited for yet


class CampaignTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"
        self.bundle = self.folder / "bundle"
        shutil.copytree(HERE / "kernels", self.bundle / "kernels")
        (self.bundle / "bundle.json").write_text('{"berth": "0"}\n', encoding="utf-8")
        if STACKS is not None:
            (self.bundle / "lib").mkdir()
            shutil.copy2(STACKS, self.bundle / "lib")

    def command(self, *parts, arguments=()):
        file = self.folder / "parts.json"
        file.write_text(json.dumps(parts), encoding="utf-8")
        return [
            sys.executable, "-B", HERE / "campaign.py", "--out", self.out, "--parts", file, "--bundle", self.bundle,
            *arguments,
        ]  # fmt: skip

    def run_parts(self, *parts, arguments=()):
        done = subprocess.run(
            self.command(*parts, arguments=arguments), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        self.said = done.stdout + done.stderr
        return done.returncode

    def result(self, name):
        return json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))

    def outcome(self, name):
        return self.result(name)["outcome"]

    def test_every_part_runs_whatever_the_others_do(self):
        hung = part("hung", HANGS, seconds=2)
        status = self.run_parts(
            part("failed", FAILS), part("crashed", CRASHES), hung, part("skipped", SKIPPED), part("half", HALF_A_LINE),
            part("good", GOOD),
        )  # fmt: skip
        self.assertEqual(status, 1, self.said)
        for name in ("failed", "crashed", "hung", "skipped"):
            self.assertEqual(self.outcome(name), name)
        self.assertEqual(self.outcome("half"), "crashed")
        self.assertEqual(self.outcome("good"), "done")
        row = {"figure": "f", "row": "r", "value": 1}
        for name in ("failed", "crashed", "hung", "half", "good"):
            self.assertEqual(self.result(name)["rows"], [{"program": f"{name} 0"} | row])
        self.assertIn("it says why", self.result("failed")["programs"][0]["text"])
        self.assertEqual(self.result("crashed")["programs"][0]["signal"], "SIGSEGV")
        summary = self.result("campaign")
        self.assertEqual(list(summary["parts"]), ["failed", "crashed", "hung", "skipped", "half", "good"])

    def test_skipped_parts_are_no_failure(self):
        self.assertEqual(self.run_parts(part("skipped", SKIPPED), part("good", GOOD)), 0, self.said)

    def test_a_hung_program_says_where_it_is_and_is_killed_with_its_children(self):
        code = f"import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\nprint('child', child.pid, flush=True)\n{HANGS}"
        self.run_parts(part("hung", code, seconds=3))
        program = self.result("hung")["programs"][0]
        self.assertEqual(program["outcome"], "hung")
        self.assertRegex(program["stacks"], r"thread \d+ sleep")
        self.assertIn("most recent call first", program["text"])
        child = int(re.search(r"child (\d+)", program["text"]).group(1))
        self.assertFalse(is_running(child))

    def test_a_hung_program_shows_the_stacks_of_native_threads(self):
        if STACKS is None:
            self.skipTest("libcampaign_stacks.so is not there")
        code = f"import threading, time\nfor _ in range(2): threading.Thread(target=time.sleep, args=(1000,)).start()\n{HANGS}"
        self.run_parts(part("hung", code, seconds=3))
        text = self.result("hung")["programs"][0]["text"]
        self.assertEqual(len(re.findall(r"^thread \d+$", text, re.MULTILINE)), 3, text)

    def test_a_program_that_leaves_a_child_behind_has_ended(self):
        self.run_parts(part("left", LEAVES_A_CHILD))
        self.assertEqual(self.outcome("left"), "done")

    def test_a_silent_program_hangs(self):
        self.run_parts(part("silent", HANGS, silence=1))
        self.assertEqual(self.outcome("silent"), "hung")

    def test_cases_go_on_behind_the_one_that_crashed_or_hung(self):
        self.run_parts(part("cases", CASES, resume="--first={next}", silence=1))
        outcomes = {row["case"]: row["outcome"] for row in self.result("cases")["rows"]}
        expected = dict.fromkeys((f"case {number}" for number in range(1, 8)), "agrees")
        self.assertEqual(outcomes, expected | {"case 3": "crashed", "case 5": "hung"})

    def test_a_program_that_is_not_there_fails(self):
        missing = part("missing", "") | {"programs": [{"name": "missing", "command": ["bin/nothing"]}]}
        self.assertEqual(self.run_parts(missing), 1)
        self.assertIn("bin/nothing", self.result("missing")["programs"][0]["text"])

    def test_programs_behind_one_that_took_all_the_time_are_noted(self):
        late = part("late", HANGS, GOOD) | {"seconds": 2}
        self.run_parts(late)
        self.assertEqual([each["outcome"] for each in self.result("late")["programs"]], ["hung", "cut short"])
        self.assertEqual(self.outcome("late"), "hung")

    def test_what_a_hung_program_has_started_ends_with_it(self):
        self.run_parts(part("nested", HANGS_NESTED, seconds=2))
        self.assertEqual(self.outcome("nested"), "hung")
        child = self.result("nested")["rows"][0]["child"]
        self.assertFalse(is_running(child))
        self.assertIn(f"process {child}: ", self.result("nested")["programs"][0]["stacks"])

    def test_an_interrupted_campaign_keeps_what_it_has(self):
        command = self.command(part("good", GOOD), part("hung", HANGS))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (self.out / "hung.json").exists() or not self.result("hung")["rows"]:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.wait()
        self.assertEqual(self.outcome("good"), "done")
        self.assertEqual(self.outcome("hung"), "interrupted")

    def test_parts_are_chosen(self):
        parts = (part("one", GOOD), part("two", GOOD), part("three", GOOD))
        self.run_parts(*parts, arguments=["--only", "one", "--only", "two", "--skip", "one"])
        self.assertEqual(list(self.result("campaign")["parts"]), ["two"])
        self.run_parts(*parts, arguments=["--list", "--minutes", "1"])
        self.assertEqual(len(re.findall(r"^(?:one|two|three) +20 s ", self.said, re.MULTILINE)), 3, self.said)
        self.assertEqual(self.run_parts(*parts, arguments=["--only", "four"]), 1)
        self.assertIn("no part four; accepted: one, two, three", self.said)

    def test_arguments_that_mean_nothing_are_refused(self):
        for arguments in (["--minutes", "0"], ["--minutes", "-1"], ["--minutes", "inf"], ["--nothing"]):
            self.assertEqual(self.run_parts(part("one", GOOD), arguments=arguments), 2, arguments)

    def test_a_file_of_results_stays_below_its_bound(self):
        code = "for i in range(200_000): print('{\"figure\": \"f\", \"row\": \"' + 'x' * 100 + '\", \"value\": 1}')"
        self.run_parts(part("long", code))
        self.assertLess((self.out / "long.json").stat().st_size, 16 << 20)
        self.assertGreater(self.result("long")["rows_left_out"], 0)


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


if __name__ == "__main__":
    os.environ["BERTH_DRIVER"] = "sim"
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        STACKS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
