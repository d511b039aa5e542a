# SPDX-License-Identifier: Apache-2.0
"""Tests of instructions.py on dumps written by hand."""

import unittest

import instructions


def dump(name: str, operations: int, total: int) -> str:
    return f"desc: Trigger: Client Request: {name} {operations}\nevents: Ir\ntotals: {total}\n"


class InstructionsTest(unittest.TestCase):
    def test_what_is_around_the_operations_is_not_counted(self) -> None:
        figures = instructions.figures_of(
            [dump("pair/berth/512", 10, 70), dump("pair/berth/512", 20, 130)]
        )
        self.assertEqual(figures["pair"].values, {"berth": {"512": 6}})
        self.assertEqual(figures["pair"].unit, "instructions")

    def test_the_dump_at_the_end_of_the_program_is_no_section(self) -> None:
        self.assertEqual(
            instructions.figures_of(["desc: Trigger: Program termination\ntotals: 0\n"]), {}
        )


if __name__ == "__main__":
    unittest.main()
