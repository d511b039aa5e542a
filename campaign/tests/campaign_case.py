# SPDX-License-Identifier: Apache-2.0
"""What the tests of a campaign share: a bundle without programs, parts written in Python, and their
results."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CAMPAIGN = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CAMPAIGN))
STACKS = None  # libcampaign_stacks.so, if it was built

import processes  # noqa: E402

ROW = 'print(\'{"figure": "f", "row": "r", "value": 1}\', flush=True)'
GOOD = ROW
HANGS = f"import time\n{ROW}\ntime.sleep(1000)"
# A process that has left the program's group and session, and whose parent has ended.
LEAVES_A_DAEMON = """
import json, os, subprocess, sys, time
code = '''
import subprocess
print(subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=2).pid)
'''
child = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
print(json.dumps({"child": int(child.stdout)}), flush=True)
"""


def part(name, *codes, **more):
    programs = [
        {"name": f"{name} {index}", "command": ["python3", "-c", code], **more}
        for index, code in enumerate(codes)
    ]
    return {"name": name, "seconds": 60, "says": f"what {name} says", "programs": programs}


class CampaignCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"
        self.bundle = self.folder / "bundle"
        self.bundle.mkdir()
        (self.bundle / "bundle.json").write_text('{"berth": "0"}\n', encoding="utf-8")
        self.add_program("bin/campaign_facts", "exit 77")
        if STACKS is not None:
            (self.bundle / "lib").mkdir()
            shutil.copy2(STACKS, self.bundle / "lib")
        self.environment = os.environ | {"BERTH_DRIVER": "sim"}

    def add_program(self, name, script):
        path = self.bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def command(self, *parts, arguments=()):
        file = self.folder / "parts.json"
        file.write_text(json.dumps(parts), encoding="utf-8")
        return [
            sys.executable, "-B", CAMPAIGN / "campaign.py", "--out", self.out, "--parts", file,
            "--bundle", self.bundle, *arguments,
        ]  # fmt: skip

    def run_parts(self, *parts, arguments=()):
        done = subprocess.run(
            self.command(*parts, arguments=arguments), env=self.environment, capture_output=True,
            text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.said = done.stdout + done.stderr
        return done.returncode

    def result(self, name):
        return json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))

    def outcome(self, name):
        return self.result(name)["outcome"]

    def wait_until(self, condition):
        """Ends with the test's own time limit."""
        while not condition():
            time.sleep(0.02)

    def assert_ended(self, pid):
        self.assertFalse(processes.is_running(pid), f"process {pid} is still there")


def main():
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        global STACKS
        STACKS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
