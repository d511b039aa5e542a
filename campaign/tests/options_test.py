#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a campaign is called: its options, the folder for the results, the interpreter."""

import os
import re
import shutil
import subprocess
import sys

import campaign_case
from campaign_case import CAMPAIGN, GOOD, CampaignCase, part

THREE = (part("one", GOOD), part("two", GOOD), part("three", GOOD))


class OptionsTest(CampaignCase):
    def test_parts_are_chosen(self):
        self.run_parts(
            *THREE, arguments=["--only", "one, two", "--only", "three", "--skip", "one,three"]
        )
        self.assertEqual(list(self.result("campaign")["parts"]), ["two"])

    def test_parts_are_listed_with_their_share_of_the_time(self):
        self.assertEqual(self.run_parts(*THREE, arguments=["--list", "--minutes", "1"]), 0)
        found = re.findall(r"^(?:one|two|three) +19 s ", self.said, re.MULTILINE)
        self.assertEqual(len(found), 3, self.said)
        self.assertFalse(self.out.exists())

    def test_arguments_that_mean_nothing_are_refused(self):
        minutes = [
            ["--minutes", text] for text in ("0", "-1", "inf", "nan", "1e-9", "9", "soon", "")
        ]
        names = [["--only", "four"], ["--skip", "four"], ["--only", ""], ["--only", "one,"]]
        none = [["--skip", "one", "--skip", "two,three"], ["--only", "one", "--skip", "one"]]
        for arguments in (*minutes, *names, *none, ["--nothing"], ["one"]):
            status = self.run_parts(*THREE, arguments=arguments)
            self.assertEqual(status, 2, (arguments, self.said))
            self.assertNotIn("Traceback", self.said)
            self.assertFalse(self.out.exists(), arguments)
        self.run_parts(*THREE, arguments=["--only", "one,four,five"])
        self.assertIn("no part 'four', 'five'; accepted: one, two, three", self.said)


class MachineTest(CampaignCase):
    def test_a_folder_that_is_no_bundle_is_named(self):
        for text, problem in (
            (None, "No such file"),
            ("{", "no JSON as a bundle has it"),
            ("[]", "no JSON as a bundle has it"),
            ('{"glibc": "2.x"}', "its glibc is no version"),
        ):
            path = self.bundle / "bundle.json"
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text, encoding="utf-8")
            self.assertEqual(self.run_parts(*THREE), 2, self.said)
            self.assertIn(f"{path}: {problem}", self.said)
            self.assertNotIn("Traceback", self.said)

    def test_a_bundle_may_lie_in_any_folder(self):
        odd = self.folder / "a b:c\n$ORIGIN"
        self.bundle.rename(odd)
        self.bundle = odd
        code = "import json, os; print(json.dumps({'traces': os.environ['BERTH_BENCH_TRACES']}))"
        self.assertEqual(self.run_parts(part("one", code)), 0, self.said)
        row = self.result("one")["rows"][0]
        self.assertRegex(row["traces"], r"^[\w./-]+$")
        self.assertEqual(self.result("one")["programs"][0].get("text", ""), "")

    def test_a_relative_folder_for_temporary_files_is_the_same_for_programs(self):
        code = "import os, sys; sys.exit(not os.path.isdir(os.environ['TMPDIR']))"
        self.environment["TMPDIR"] = "."
        self.assertEqual(self.run_parts(part("one", code)), 0, self.said)

    def needs(self, glibc):
        about = self.bundle / "bundle.json"
        about.write_text(f'{{"berth": "0", "glibc": "{glibc}"}}\n', encoding="utf-8")

    def test_a_c_library_that_is_too_old_is_named_before_anything_runs(self):
        self.needs("99.1")
        self.assertEqual(self.run_parts(*THREE), 2, self.said)
        self.assertRegex(
            self.said, r"this machine has glibc 2\.\d+, and the bundle needs 99\.1 or newer"
        )
        self.assertFalse(self.out.exists())

    def test_versions_are_compared_as_numbers(self):
        self.needs("2.4")
        self.assertEqual(self.run_parts(THREE[0]), 0, self.said)


class FolderTest(CampaignCase):
    def test_results_of_an_earlier_campaign_are_kept(self):
        self.assertEqual(self.run_parts(THREE[0]), 0, self.said)
        before = self.result("one")
        self.assertEqual(self.run_parts(*THREE), 2)
        self.assertIn("has results of an earlier campaign", self.said)
        self.assertEqual(self.result("one"), before)
        self.assertFalse((self.out / "two.json").exists())

    def test_a_folder_that_cannot_be_written_is_said_at_once(self):
        (self.folder / "file").touch()
        full = self.folder / "full"
        full.mkdir()
        (full / "campaign.json.partial").symlink_to("/dev/full")
        folders = {
            "file": "File exists",
            "file/below": "Not a directory",
            "full": "No space left on device",
        }
        for name, problem in folders.items():
            self.out = self.folder / name
            self.assertEqual(self.run_parts(*THREE), 2, name)
            self.assertIn(f"cannot be written into {self.out}: {problem}", self.said)
            self.assertNotIn("Traceback", self.said)

    def test_a_disk_that_is_full_for_a_while_loses_nothing(self):
        self.out.mkdir()
        (self.out / "one.json.partial").symlink_to("/dev/full")  # goes away with the first attempt
        self.assertEqual(self.run_parts(*THREE), 0, self.said)
        self.assertEqual(len(self.result("one")["rows"]), 1)

    def test_a_result_that_cannot_be_written_does_not_end_the_campaign(self):
        code = f"import os\nos.makedirs({str(self.out / 'two.json')!r})"
        self.assertEqual(self.run_parts(part("one", code), *THREE[1:]), 1)
        self.assertIn(f"could not be written: {self.out / 'two.json'}: Is a directory", self.said)
        self.assertNotIn("Traceback", self.said)
        self.assertEqual(
            self.result("campaign")["parts"], dict.fromkeys(("one", "two", "three"), "done")
        )
        self.assertEqual(self.outcome("three"), "done")

    def test_nobody_has_to_read_what_it_says(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as output:
            done = subprocess.run(
                self.command(*THREE),
                env=self.environment,
                stdout=output,
                stderr=subprocess.PIPE,
                check=False,
            )
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.result("campaign")["parts"]["three"], "done")

    def test_nothing_else_is_left(self):
        code = (
            "import os, pathlib\n"
            "pathlib.Path(os.environ['TMPDIR'], 'left').write_text('it')\n"
            "print(os.environ['TMPDIR'])"
        )
        self.run_parts(part("one", code))
        self.assertEqual(
            sorted(path.name for path in self.out.iterdir()), ["campaign.json", "one.json"]
        )
        scratch = self.result("one")["programs"][0]["text"].strip()
        self.assertFalse(os.path.exists(scratch), scratch)


class CommandTest(CampaignCase):
    """The script that a person calls."""

    def setUp(self):
        super().setUp()
        self.place = self.folder / "a bundle"
        shutil.copytree(
            CAMPAIGN, self.place / "scripts", ignore=shutil.ignore_patterns("tests", "fakes")
        )
        shutil.copy2(CAMPAIGN / "command", self.place / "campaign")

    def run_command(self, *words, **environment):
        done = subprocess.run(
            list(words),
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        return done.returncode, done.stdout + done.stderr

    def tools(self, **scripts):
        """A folder for PATH with what a shell script needs, and these."""
        folder = self.folder / f"tools{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / "readlink").symlink_to(shutil.which("readlink"))
        for name, text in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (folder / name).chmod(0o755)
        return str(folder)

    def test_it_may_be_called_from_anywhere(self):
        link = self.folder / "link"
        link.symlink_to(self.place / "campaign")
        for path in (self.place / "campaign", link):
            status, said = self.run_command(str(path), "--list")
            self.assertEqual(status, 0, said)
            self.assertIn("endurance", said)

    def test_settings_of_python_and_a_missing_path_change_nothing(self):
        for settings in ({"PYTHONSAFEPATH": "1"}, {"PYTHONOPTIMIZE": "2"}, {"PATH": ""}):
            status, said = self.run_command(
                "/bin/sh", str(self.place / "campaign"), "--list", PYTHON=sys.executable, **settings
            )
            self.assertEqual(status, 0, said)

    def test_an_interpreter_that_does_not_start_is_named(self):
        broken = self.tools(python3="exit 1")
        status, said = self.run_command("/bin/sh", str(self.place / "campaign"), PATH=broken)
        self.assertEqual(status, 2, said)
        self.assertIn("python3 does not start", said)

    def test_an_interpreter_that_is_missing_or_old_is_named(self):
        old = self.tools(python3='if [ "$1" = -V ]; then echo Python 3.8.10; else echo False; fi')
        for path, expected in (
            (self.tools(), "there is no python3"),
            (old, "python3 is Python 3.8.10"),
        ):
            status, said = self.run_command(
                "/bin/sh", str(self.place / "campaign"), "--list", PATH=path
            )
            self.assertEqual(status, 2, said)
            self.assertIn(f"{expected}: Python 3.10 or newer is needed", said)
        status, said = self.run_command(
            "/bin/sh", str(self.place / "campaign"), "--list", PATH=old, PYTHON=sys.executable
        )
        self.assertEqual(status, 0, said)

    def test_all_scripts_are_of_that_python(self):
        import ast

        for path in CAMPAIGN.glob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))

    def test_modules_that_python_may_lack_are_not_needed(self):
        """Python without libffi has no ctypes, without zlib no gzip."""
        blocked = self.folder / "blocked"
        blocked.mkdir()
        for name in ("ctypes", "gzip", "zlib"):
            (blocked / f"{name}.py").write_text(
                "raise ImportError('it was built without')\n", encoding="utf-8"
            )
        self.environment["PYTHONPATH"] = str(blocked)
        self.assertEqual(self.run_parts(*THREE), 0, self.said)


if __name__ == "__main__":
    campaign_case.main()
