#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/simulator.md: its program of the driver API, run as it says, prints what it shows."""

import os
import re
import sys
import unittest

from sim_program import SimTest, berth, masked

PAGE = os.path.join(os.environ["BERTH_SOURCE_ROOT"], "docs", "simulator.md")


class Page(SimTest):
    @unittest.skipUnless((3, 11) <= sys.version_info[:2] <= (3, 14), "frames are not known")
    def test_the_program_of_the_driver_prints_the_report(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        program = re.search(r"```python\n(.*?)```", page, re.S).group(1)
        command, report = re.search(
            r"```\n\$ berth (sim -- [^\n]*)\n([^`]*)\$ echo \$\?\n1\n```", page
        ).groups()
        self.write("race.py", program)
        words = [sys.executable if word == "python" else word for word in command.split()]
        outcome = berth(*words, env={"BERTH_DRIVER": None}, cwd=self.folder)
        self.assertEqual(outcome.exit_code, 1, outcome.story)
        said = masked(outcome.err).replace(sys.executable, "python")
        self.assertEqual(said, masked(report))

    def test_the_fix_of_the_page_is_silent(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        program, fix = re.findall(r"```python\n(.*?)```", page, re.S)[:2]
        place = "cuda.cuMemcpyDtoHAsync_v2"
        self.assertEqual(program.count(place), 1)
        self.write("race.py", program.replace(place, fix + place))
        outcome = berth("sim", "--seeds", "5", "--", sys.executable, "race.py", cwd=self.folder,
                        env={"BERTH_DRIVER": None})
        self.assertEqual(outcome.exit_code, 0, outcome.story)


if __name__ == "__main__":
    unittest.main()
