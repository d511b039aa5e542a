#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth sim --seeds`: the program again and again, in other legal orders."""

import os
import pty
import re
import subprocess
import unittest

from sim_program import BERTH, CASES, SimTest, environment

AGAIN = re.compile(r"^    seeds? ([\d, ]+)(?: and \d+ more)?; again with: berth (sim .*)$", re.M)


class Seeds(SimTest):
    def test_equal_findings_of_several_seeds_are_one(self):
        outcome = self.cases("race", options=("--seeds", "4"))
        (found,) = self.assert_findings(outcome, "race")
        self.assertEqual(found["seeds"], [1, 2, 3, 4])
        self.assertEqual([run["seed"] for run in outcome.report["runs"]], [1, 2, 3, 4])
        self.assertIn("berth sim: 1 finding in 4 seeds\n", outcome.err)
        self.assertEqual(AGAIN.findall(outcome.err)[0][0], "1, 2, 3, 4")

    def test_the_right_version_is_silent_in_every_seed(self):
        outcome = self.cases("ordered", options=("--seeds", "10"))
        self.assert_findings(outcome)
        self.assertEqual(outcome.err, "berth sim: no findings in 10 seeds\n")

    def test_the_host_may_wait_without_a_call(self):
        outcome = self.cases("silent", options=("--seeds", "3"))
        self.assert_findings(outcome)
        self.assert_findings(self.cases("silent", options=("--set", "progress=timed")))

    def test_a_finding_of_some_orders_names_the_seeds_that_have_it(self):
        outcome = self.cases("sometimes", options=("--seeds", "20"))
        (found,) = self.assert_findings(outcome, "race")
        self.assertGreater(len(found["seeds"]), 0)
        self.assertLess(len(found["seeds"]), 20)
        for seed in range(1, 21):
            again = self.cases("sometimes", options=("--seed", str(seed)))
            kinds = ["race"] if seed in found["seeds"] else []
            self.assert_findings(again, *kinds)

    def test_the_line_that_runs_a_seed_again_does(self):
        outcome = self.sim("--seeds", "20", "--devices", "2", "--set", "jitter=7",
                           program=["sh", "-c", 'exec "$0" $1', CASES, "sometimes"])
        (found,) = self.assert_findings(outcome, "race")
        ((_, command),) = AGAIN.findall(outcome.err)
        self.assertIn(f"--devices 2 --set jitter=7 --seed {found['seeds'][0]} -- sh -c", command)
        env = environment({"BERTH_DRIVER": None})
        again = subprocess.run(["sh", "-c", f"{BERTH} {command}"], env=env, text=True,
                               capture_output=True)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn(f"    seed {found['seeds'][0]}; again with: berth {command}\n", again.stderr)

    def test_many_seeds_are_cut_short_in_the_text(self):
        outcome = self.cases("race", options=("--seeds", "12"))
        self.assertIn("seeds 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more; again", outcome.err)

    def test_a_program_that_fails_in_some_orders(self):
        script = "case $BERTH_SIM in *seed=[35]*) exit 4 ;; *seed=2*) kill -9 $$ ;; esac"
        outcome = self.sim("--seeds", "5", program=["sh", "-c", script])
        self.assertEqual(outcome.exit_code, 137, outcome.story)
        failures = re.findall(r"the program failed, with (.*)\n    (.*); again with", outcome.err)
        self.assertEqual(
            failures, [("signal 9 (SIGKILL)", "seed 2"), ("exit code 4", "seeds 3, 5")])
        self.assertEqual([run["exit_code"] for run in outcome.report["runs"]], [0, 137, 4, 0, 4])

    def test_a_signal_and_its_exit_code_are_two_ends(self):
        script = "case $BERTH_SIM in *seed=1*) exit 137 ;; *) kill -9 $$ ;; esac"
        outcome = self.sim("--seeds", "2", program=["sh", "-c", script])
        self.assertEqual(outcome.err.count("the program failed, with"), 2, outcome.story)

    def test_seeds_choose_the_random_order_unless_it_is_set(self):
        program = ["sh", "-c", "echo $BERTH_SIM"]
        env = {"BERTH_SIM": "progress=eager,devices=2"}
        out = self.sim("--seeds", "2", program=program, env=env).out
        self.assertEqual(out.count("progress=random"), 2, out)
        self.assertNotIn("eager", out)
        self.assertIn("seed=1", out.splitlines()[0])
        self.assertIn("seed=2", out.splitlines()[1])
        out = self.sim("--seed", "9", "--set", "progress=timed", program=program, env=env).out
        self.assertIn("progress=timed", out)
        self.assertIn("seed=9", out)
        self.assertNotIn("random", out)
        self.assertIn("progress=eager", self.sim(program=program, env=env).out)

    def test_a_terminal_sees_which_seed_runs(self):
        master, slave = pty.openpty()
        try:
            process = subprocess.run(
                [BERTH, "sim", "--seeds", "2", "--", CASES, "race"],
                env=environment({"BERTH_DRIVER": None}), stderr=slave, check=False)
            self.assertEqual(process.returncode, 1)
            text = os.read(master, 65536).decode()
        finally:
            os.close(master)
            os.close(slave)
        self.assertIn("berth sim: seed 1 of 2, 0 findings so far", text)
        self.assertIn("berth sim: seed 2 of 2, 1 findings so far", text)
        self.assertNotIn("so far", self.cases("race", options=("--seeds", "2")).err)


if __name__ == "__main__":
    unittest.main()
