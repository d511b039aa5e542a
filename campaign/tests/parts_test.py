#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A campaign whose parts fail, crash, hang, and print nonsense on purpose."""

import json
import re
import shutil

import campaign_case
from campaign_case import CAMPAIGN, GOOD, HANGS, LEAVES_A_DAEMON, ROW, CampaignCase, part

import results

FAILS = f"{ROW}\nraise SystemExit('it says why')"
SKIPPED = "raise SystemExit(77)"
CRASHES = f"import os, signal\n{ROW}\nos.kill(os.getpid(), signal.SIGSEGV)"
# Most of the real-time signals have no name.
CRASHES_WITHOUT_NAME = f"import os\n{ROW}\nos.kill(os.getpid(), 40)"
# As a program that runs others under limits of its own.
HANGS_NESTED = """
import json, subprocess, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(json.dumps({"child": child.pid}), flush=True)
time.sleep(1000)
"""
LEAVES_A_CHILD = f"import subprocess\n{ROW}\nsubprocess.Popen(['sleep', '1000'])"
HALF_A_LINE = f'import os\n{ROW}\nos.write(1, b\'{{"figure": "f"\')\nos.abort()'
NONSENSE = f"""
import os
os.write(1, b'{{"a":' * 100_000 + b'\\n')
os.write(1, b'\\0\\xff\\xfe[]"{{\\n' * 1000)
os.write(1, b'{{"figure": "\\xff"}}\\n{{}}\\n{{"begin": []}}\\n')
for _ in range(50): os.write(1, b'x' * (1 << 20))
os.write(1, b'\\n')
os.close(2)
{ROW}
"""
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
EACH_CASE_CRASHES = """
import json, os, signal
print(json.dumps({"begin": "a case"}), flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""


class PartsTest(CampaignCase):
    def test_every_part_runs_whatever_the_others_do(self):
        endings = {
            "failed": (FAILS, "failed"), "crashed": (CRASHES, "crashed"), "hung": (HANGS, "hung"),
            "skipped": (SKIPPED, "skipped"), "half": (HALF_A_LINE, "crashed"),
            "unnamed": (CRASHES_WITHOUT_NAME, "crashed"), "nonsense": (NONSENSE, "done"),
            "good": (GOOD, "done"),
        }  # fmt: skip
        parts = [
            part(name, code, **({"seconds": 2} if name == "hung" else {}))
            for name, (code, _) in endings.items()
        ]
        self.assertEqual(self.run_parts(*parts), 1, self.said)
        found = self.result("campaign")["parts"]
        self.assertEqual(found, {name: outcome for name, (_, outcome) in endings.items()})
        self.assertEqual({name: self.outcome(name) for name in endings}, found)
        row = {"figure": "f", "row": "r", "value": 1}
        for name in set(endings) - {"skipped"}:
            self.assertIn({"program": f"{name} 0"} | row, self.result(name)["rows"])
        self.assertIn("it says why", self.result("failed")["programs"][0]["text"])
        self.assertEqual(self.result("crashed")["programs"][0]["signal"], "SIGSEGV")
        self.assertEqual(self.result("unnamed")["programs"][0]["signal"], "signal 40")
        self.assertLess(len(self.result("nonsense")["programs"][0]["text"]), 1 << 17)

    def test_a_program_that_campaigns_cannot_read_ends_no_other(self):
        """Each level of a row is read one call deeper than it is written."""
        nested = "for depth in range(900, 1000): print('{\"a\":' + '[' * depth + ']' * depth + '}')"
        self.run_parts(part("nested", nested, GOOD))
        self.assertEqual(self.result("campaign")["parts"]["nested"], self.outcome("nested"))
        self.assertEqual(self.result("nested")["programs"][-1]["outcome"], "done")

    def test_facts_that_are_nonsense_or_hang_end_nothing(self):
        self.add_program(
            "bin/campaign_facts", """echo '{"compute_major": null, "bytes_free": "x"}'"""
        )
        (self.bundle / "kernels").mkdir()
        (self.bundle / "kernels/kernels.cu").touch()
        self.assertEqual(self.run_parts(part("good", GOOD)), 0, self.said)
        self.add_program("bin/campaign_facts", "echo asked >> asked; sleep 1000")
        shutil.rmtree(self.out)
        self.assertEqual(
            self.run_parts(part("good", GOOD), arguments=["--minutes", "0.2"]), 0, self.said
        )
        self.assertEqual((self.bundle / "asked").read_text(encoding="utf-8"), "asked\n")

    def test_a_part_that_was_interrupted_between_programs_is_not_done(self):
        ends_it = "import os, signal; os.kill(os.getppid(), signal.SIGTERM)"
        self.assertEqual(self.run_parts(part("one", ends_it, GOOD), part("two", GOOD)), 143)
        self.assertEqual(self.outcome("one"), "interrupted")
        self.assertEqual(self.result("campaign")["parts"], {"one": "interrupted"})

    def test_numbers_that_json_lacks_are_text(self):
        code = r"""print('{"a": NaN, "b": 1e999, "c": [-Infinity], "d": "\\ud800"}')"""
        self.assertEqual(self.run_parts(part("one", code)), 0, self.said)

        def refuse(name):
            self.fail(name)

        text = (self.out / "one.json").read_text(encoding="utf-8")
        row = json.loads(text, parse_constant=refuse)["rows"][0]
        self.assertEqual([row["a"], row["b"], row["c"]], ["nan", "inf", ["-inf"]])
        row["d"].encode("utf-8")

    def test_a_row_that_is_too_large_leaves_room_for_others(self):
        result = results.PartResult(self.folder / "one.json", "one")
        for size in (1, 20 << 20, 1):
            result.add_row("it", {"x": "y" * size})
        self.assertEqual((len(result.rows), result.left_out["rows"]), (2, 1))

    def test_a_campaign_that_measured_nothing_says_so(self):
        self.assertEqual(self.run_parts(part("skipped", SKIPPED)), 1)
        self.assertIn("nothing was measured", self.said)

    def test_skipped_parts_are_no_failure(self):
        self.assertEqual(self.run_parts(part("skipped", SKIPPED), part("good", GOOD)), 0, self.said)

    def test_a_hung_program_says_where_it_is_and_is_killed_with_its_children(self):
        code = (
            "import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n"
            f"print('child', child.pid, flush=True)\n{HANGS}"
        )
        self.run_parts(part("hung", code, seconds=3))
        program = self.result("hung")["programs"][0]
        self.assertEqual((program["outcome"], program["why"]), ("hung", "its time was over"))
        self.assertRegex(program["stacks"], r"thread \d+ sleep")
        self.assertIn("most recent call first", program["text"])
        self.assert_ended(int(re.search(r"child (\d+)", program["text"]).group(1)))

    def test_a_hung_program_shows_the_stacks_of_native_threads(self):
        if campaign_case.STACKS is None:
            self.skipTest("libcampaign_stacks.so was not built")
        code = (
            "import threading, time\n"
            f"for _ in range(2): threading.Thread(target=time.sleep, args=(1000,)).start()\n{HANGS}"
        )
        self.run_parts(part("hung", code, seconds=3))
        text = self.result("hung")["programs"][0]["text"]
        self.assertEqual(len(re.findall(r"^thread \d+$", text, re.MULTILINE)), 3, text)

    def test_a_program_that_leaves_a_child_behind_has_ended(self):
        self.run_parts(part("left", LEAVES_A_CHILD))
        self.assertEqual(self.outcome("left"), "done")

    def test_no_process_outlives_its_program(self):
        self.run_parts(
            part("done", LEAVES_A_DAEMON), part("hung", LEAVES_A_DAEMON + HANGS, seconds=2)
        )
        for name in ("done", "hung"):
            self.assertEqual(self.outcome(name), name)
            self.assert_ended(self.result(name)["rows"][0]["child"])

    def test_a_silent_program_hangs(self):
        self.run_parts(part("silent", HANGS, silence=1))
        program = self.result("silent")["programs"][0]
        self.assertEqual(
            (program["outcome"], program["why"]), ("hung", "it printed nothing for 1 s")
        )

    def test_cases_go_on_after_the_one_that_crashed_or_hung(self):
        self.run_parts(part("cases", CASES, resume="--first={next}", silence=1))
        outcomes = {row["case"]: row["outcome"] for row in self.result("cases")["rows"]}
        expected = dict.fromkeys((f"case {number}" for number in range(1, 8)), "agrees")
        self.assertEqual(outcomes, expected | {"case 3": "crashed", "case 5": "hung"})

    def test_a_program_is_not_resumed_for_ever(self):
        self.run_parts(part("cases", EACH_CASE_CRASHES, resume="--first={next}"))
        last = self.result("cases")["programs"][-1]
        self.assertEqual((last["outcome"], last["text"]), ("cut short", "it was resumed 20 times"))

    def test_a_program_that_does_not_exist_fails(self):
        missing = part("missing", "")
        missing["programs"] = [{"name": "missing", "command": ["bin/nothing"]}]
        self.assertEqual(self.run_parts(missing), 1)
        self.assertIn("bin/nothing", self.result("missing")["programs"][0]["text"])

    def test_programs_after_one_that_took_all_the_time_are_noted(self):
        late = part("late", HANGS, GOOD) | {"seconds": 2}
        self.run_parts(late)
        outcomes = [each["outcome"] for each in self.result("late")["programs"]]
        self.assertEqual(outcomes, ["hung", "cut short"])
        self.assertEqual(self.outcome("late"), "hung")

    def test_what_a_hung_program_has_started_ends_with_it(self):
        self.run_parts(part("nested", HANGS_NESTED, seconds=2))
        self.assertEqual(self.outcome("nested"), "hung")
        child = self.result("nested")["rows"][0]["child"]
        self.assert_ended(child)
        self.assertIn(f"process {child}: ", self.result("nested")["programs"][0]["stacks"])


class BoundsTest(CampaignCase):
    def test_a_file_of_results_stays_below_its_bound(self):
        rows = {
            "long": "'x' * 100", "nested": "[[0] * 9] * 9", "escaped": "'\\u00e9' * 100",
        }  # fmt: skip
        codes = {
            name: f"import json\nfor _ in range(200_000): print(json.dumps({{'row': {value}}}))"
            for name, value in rows.items()
        }
        self.run_parts(*(part(name, code) for name, code in codes.items()))
        for name in rows:
            size = (self.out / f"{name}.json").stat().st_size
            self.assertLess(size, 16 << 20)
            self.assertGreater(size, 8 << 20)
            self.assertGreater(self.result(name)["rows_left_out"], 0)

    def test_so_do_those_of_many_programs_that_hung(self):
        result = results.PartResult(self.folder / "many.json", "many")

        class Ending:
            outcome = "hung"

            @staticmethod
            def to_json():
                return {"outcome": "hung", "text": "\ufffd" * 16_384, "stacks": "\0" * 65_536}

        for _ in range(200):
            result.add_program("it", Ending)
        for _ in range(20_000):
            result.add_row("it", {"row": "x" * 1000})
        result.finish()
        self.assertLess((self.folder / "many.json").stat().st_size, 16 << 20)
        content = json.loads((self.folder / "many.json").read_text(encoding="utf-8"))
        self.assertGreater(content["programs_left_out"], 0)
        self.assertEqual(content["outcome"], "hung")

    def test_the_parts_fit_the_time_and_the_files(self):
        parts = json.loads((CAMPAIGN / "parts.json").read_text(encoding="utf-8"))
        import arguments
        import campaign

        seconds = sum(each["seconds"] for each in parts)
        self.assertLessEqual(seconds, campaign.seconds_for_parts(arguments.MINUTES))
        self.assertLessEqual(arguments.MINUTES, 8)
        self.assertLessEqual(len(parts) + 1, results.FILES_MAX)
        for each in parts:
            wanted = sum(program.get("seconds", 0) for program in each["programs"])
            self.assertLessEqual(wanted, each["seconds"], each["name"])


if __name__ == "__main__":
    campaign_case.main()
