#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every planted bug still fits the sources, exactly once; and what plants them does as it says.

mutants_test.py --root CHECKOUT
"""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import planted
import run
import workshop

ROOT = pathlib.Path()

MUTANT = planted.Mutant("a sum is a difference", "src/sum.cpp", "a + b", "a - b", ("base/sum",))


class ListTest(unittest.TestCase):
    def test_every_mutant_fits_the_sources(self):
        mutants = planted.read()
        self.assertGreaterEqual(len(mutants), 36)
        self.assertEqual(list(planted.problems(mutants, ROOT)), [])

    def test_what_is_wrong_with_a_list_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in (("src/sum.cpp", "return a + b;\n"), ("tests/base/sum_test.cpp", "")):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            self.assertEqual(list(planted.problems([MUTANT], root)), [])
            for changes, word in (
                ({"old": "a * b"}, "0 times"),
                ({"old": "r"}, "2 times"),
                ({"new": "a + b"}, "nothing"),
                ({"file": "src/product.cpp"}, "no src/product.cpp"),
                ({"seen_by": ()}, "nobody"),
                ({"seen_by": ("base/product",)}, "no tests/base/product"),
                ({"seen_by": ("top",)}, "no tests/top"),
            ):
                with self.subTest(word):
                    found = list(
                        planted.problems([planted.Mutant(**{**vars(MUTANT), **changes})], root)
                    )
                    self.assertEqual(len(found), 1, found)
                    self.assertIn(word, found[0])
                    self.assertIn(MUTANT.name, found[0])
            self.assertIn("two of that name", next(planted.problems([MUTANT, MUTANT], root)))


class WorkshopTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "checkout"
        for path in (
            "src/sum.cpp",
            "tests/a_test.cpp",
            "build/old",
            ".git/config",
            "src/__pycache__/c",
        ):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("return a + b;\n")
        self.shop = workshop.Workshop(self.root, pathlib.Path(folder.name) / "work", "", 1)
        self.meson = self.enterContext(unittest.mock.patch("subprocess.run"))
        self.meson.side_effect = lambda *_, **__: self.shop.build.mkdir(parents=True)
        self.shop.prepare()

    def test_the_build_folder_is_set_up_once_and_anew_with_other_options(self):
        self.shop.prepare()
        self.assertEqual(self.meson.call_count, 1)
        self.shop.toolkit_include = "elsewhere"
        self.shop.prepare()
        self.assertEqual(self.meson.call_count, 2)

    def test_the_copy_has_what_is_built_and_keeps_what_is_the_same(self):
        copied = {path.as_posix() for path in workshop.files_of(self.shop.source)}
        self.assertEqual(copied, {"src/sum.cpp", "tests/a_test.cpp"})
        before = (self.shop.source / "src/sum.cpp").stat().st_mtime_ns
        (self.root / "tests/a_test.cpp").rename(self.root / "tests/b_test.cpp")
        self.shop.prepare()
        copied = {path.as_posix() for path in workshop.files_of(self.shop.source)}
        self.assertEqual(copied, {"src/sum.cpp", "tests/b_test.cpp"})
        self.assertEqual((self.shop.source / "src/sum.cpp").stat().st_mtime_ns, before)

    def test_a_mutant_is_in_the_copy_alone_and_only_for_a_while(self):
        with self.shop.planted(MUTANT):
            self.assertEqual((self.shop.source / "src/sum.cpp").read_text(), "return a - b;\n")
        for folder in (self.shop.source, self.root):
            self.assertEqual((folder / "src/sum.cpp").read_text(), "return a + b;\n")

    def test_what_an_interrupted_run_left_broken_is_mended(self):
        self.shop.planted(MUTANT).__enter__()
        self.shop.prepare()
        self.assertEqual((self.shop.source / "src/sum.cpp").read_text(), "return a + b;\n")

    def program(self, text):
        path = self.shop.build / "tests" / "base_test"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def test_a_suite_passes_fails_or_takes_too_long(self):
        self.program("exit 0")
        self.assertIsNone(self.shop.test("base", 60).failed)
        self.program(
            "echo 'TEST CASE:  a claim'; echo 'a.cpp:3: ERROR: CHECK( a ) is NOT correct!'; exit 1"
        )
        self.assertEqual(self.shop.test("base/sum", 60).failed, "a claim")
        self.program("kill -9 $$")
        self.assertEqual(self.shop.test("base", 60).failed, "exit status -9")
        self.program("sleep 60 & wait")
        outcome = self.shop.test("base", 0.1)
        self.assertIsNone(outcome.failed)
        self.assertFalse(outcome.ended)
        self.assertLess(outcome.seconds, 50)

    def test_a_part_of_a_suite_is_asked_for_by_file(self):
        self.program("case \"$*\" in *'--source-file=*/sum_test.cpp'*) exit 0;; esac; exit 3")
        self.assertIsNone(self.shop.test("base/sum", 60).failed)
        self.assertEqual(self.shop.test("base", 60).failed, "exit status 3")

    def test_a_file_may_be_a_program_of_its_own(self):
        self.assertEqual(workshop.program_of("base"), "tests/base_test")
        self.assertEqual(workshop.program_of("base/sum"), "tests/base_test")
        self.assertEqual(workshop.program_of("replay/waste"), "tests/replay/waste_test")
        self.assertEqual(workshop.program_of("capi/capi_error"), "tests/capi_test")

    def test_a_program_in_c_is_asked_for_as_a_whole(self):
        self.assertEqual(workshop.program_of("capi/capi"), "tests/capi/capi_c_test")
        program = self.shop.build / "tests/capi/capi_c_test"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\ncase \"$*\" in *source-file*) exit 3;; esac\n")
        program.chmod(0o755)
        self.assertIsNone(self.shop.test("capi/capi", 60).failed)
        program.write_text("#!/bin/sh\necho a.c:3: does not hold: a; exit 1\n")
        self.assertEqual(self.shop.test("capi/capi", 60).failed, "exit status 1")

    def test_messages_of_test_cases_that_pass_are_no_failures(self):
        passed = "TEST CASE:  the first\na.cpp:1: MESSAGE: seed 7\n"
        failed = (
            "TEST CASE:  the second\n  a part\na.cpp:9: FATAL ERROR: REQUIRE( x ) is NOT correct!\n"
        )
        self.assertIsNone(workshop.failed_test_case(passed))
        self.assertEqual(workshop.failed_test_case(passed + failed), "the second")


class Played:
    """A workshop whose tests say what they are told to, and note how long they were given."""

    def __init__(self, **outcomes):
        self.outcomes = outcomes
        self.given = []

    def planted(self, _):
        return contextlib.nullcontext()

    def make(self, _):
        pass

    def test(self, step, seconds_max):
        self.given.append(seconds_max)
        return self.outcomes.get(step.replace("/", "_"), workshop.Outcome(None, 1.0))


class CatchTest(unittest.TestCase):
    SOUND = {"base/sum": 0.1, "memory": 20.0, "model": 1.0, "fault": 1.0, "base": 1.0}

    def test_the_first_that_fails_has_caught_it(self):
        shop = Played(base_sum=workshop.Outcome("a claim", 0.2))
        result = run.catch(shop, MUTANT, self.SOUND)
        self.assertEqual((result.suite, result.test_case), ("base", "a claim"))

    def test_a_test_that_does_not_end_has_caught_it_if_it_should_have_ended_long_ago(self):
        shop = Played(base_sum=workshop.Outcome(None, 10.0, ended=False))
        result = run.catch(shop, MUTANT, self.SOUND)
        self.assertEqual((result.suite, result.test_case), ("base", "base/sum does not end"))
        self.assertEqual(shop.given, [run.HANGS_SECONDS_MIN])

    def test_a_test_that_is_merely_slow_has_not(self):
        shop = Played(memory=workshop.Outcome(None, 59.0, ended=False))
        result = run.catch(shop, MUTANT, self.SOUND)
        self.assertEqual((result.suite, result.test_case), (None, run.TOO_LATE))

    def test_nobody_sees_it(self):
        result = run.catch(Played(), MUTANT, self.SOUND)
        self.assertEqual((result.suite, result.test_case), (None, "NOT SEEN"))


class CopiesTest(unittest.TestCase):
    def test_every_mutant_is_planted_once_in_some_copy_and_the_results_keep_their_order(self):
        planted_in = {}

        class Copy(Played):
            occupied = False

            def prepare(self):
                pass

            @contextlib.contextmanager
            def planted(self, mutant):
                self.outcomes["base_sum"] = workshop.Outcome(f"sees {mutant.name}", 0.2)
                assert not self.occupied, "a copy holds one bug at a time"
                self.occupied = True
                planted_in.setdefault(mutant.name, []).append(self)
                yield
                self.occupied = False
                self.outcomes.clear()

        mutants = [planted.Mutant(**{**vars(MUTANT), "name": f"bug {i}"}) for i in range(20)]
        copies = [Copy() for _ in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stdout(io.StringIO()):
                results = run.run(copies, mutants, pathlib.Path(folder) / "seconds.json")
        self.assertEqual(
            [(result.name, result.test_case) for result in results],
            [(mutant.name, f"sees {mutant.name}") for mutant in mutants],
        )
        self.assertTrue(all(len(places) == 1 for places in planted_in.values()))
        self.assertEqual(len(planted_in), 20)


class TableTest(unittest.TestCase):
    def test_a_row_has_all_of_it_in_80_columns(self):
        name = "a name that takes more room than its column has"
        text = run.row(
            name, "memory: a test case that takes more than that, and a third line of it", "12.5"
        )
        self.assertGreater(text.count("\n"), 0)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
        said = "memory: a test case that takes more than that, and a third line of it"
        words = f"{name} {said} 12.5".split()
        self.assertEqual(sorted(text.split()), sorted(words))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    ROOT = options.root
    unittest.main(argv=[sys.argv[0], *rest])
