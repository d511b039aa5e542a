# SPDX-License-Identifier: Apache-2.0
"""What the tests share that run programs of others:

  SCRIPT BERTH [unittest's arguments]

The packages are those of the folder that BERTH_CLIENT_WHEELS names and `./run test clients`
fetches. BERTH_LIBRARY names libberth.
"""

import os
import pathlib
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def main(wheels):
    """Runs the tests of the main module; exits as skipped where the folder of wheels is missing."""
    run(None if folder(wheels).is_dir() else f"packages for {wheels}")


def run(missing):
    """Runs the tests of the main module; exits as skipped if something is `missing`."""
    if missing:
        print(f"skipped: no {missing}; `./run test clients` fetches them")
        sys.exit(SKIPPED)
    unittest.main()


def library_folder():
    return pathlib.Path(os.environ["BERTH_LIBRARY"]).parent


def berth_flags():
    """For a compiler: berth as it was built, without installing it."""
    return [f"-I{ROOT}/include", f"-L{library_folder()}", "-lberth"]


def done(*command, cwd=None, **environment):
    """The output of a program that uses berth itself, or of a command that makes one."""
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LD_LIBRARY_PATH": str(library_folder())} | environment,
        cwd=cwd,
    )
    if ended.returncode != 0:
        raise AssertionError(story(ended))
    return ended.stdout


def folder(wheels):
    return pathlib.Path(os.environ.get("BERTH_CLIENT_WHEELS", "/nonexistent")) / wheels


def sim(wheels, *options, program, **environment):
    """Runs Python with the packages of that folder and berth's; returns the finished process. Adds
    `environment` to the environment."""
    # Before what is installed, and with what the packages do when an interpreter starts.
    start = f"import runpy, site, sys; site.addsitedir({str(folder(wheels))!r}); "
    return subprocess.run(
        [BERTH, "sim", *options, "--", sys.executable, "-W", "ignore", "-c", start + program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{folder(wheels)}:{ROOT / 'python'}"} | environment,
        cwd=pathlib.Path(__file__).parent,
    )


def story(done):
    return f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
