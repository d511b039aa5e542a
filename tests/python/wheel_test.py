#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels `berth` and `berth-sim`, installs them into an environment of their own, and
runs the tests of the Python module there. Checks that a wheel needs nothing but what every Linux of
its age has, by the rules of auditwheel where that can be downloaded.

  wheel_test.py CHECKOUT

Exit status 77 unless BERTH_TEST_WHEEL=1, because it builds the library once more.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import venv

AUDITWHEEL = "auditwheel==6.8.2"
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
TESTS = ("array", "exit", "memory", "runtime", "torch")
CHECKOUT = pathlib.Path(sys.argv.pop())


def run(*command, status=0, cwd=None, **environment):
    """The output of a command, without what names libraries elsewhere."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("BERTH_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")
    }
    done = subprocess.run(
        [str(word) for word in command],
        env={**clean, **environment},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != status:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.bin = cls.folder / "venv/bin"
        venv.create(cls.folder / "venv", with_pip=True)
        cls.pip("wheel", "--no-deps", "--wheel-dir", cls.folder / "wheels", CHECKOUT)
        cls.pip("wheel", "--no-deps", "--wheel-dir", cls.folder / "wheels", CHECKOUT / "python/sim")
        cls.wheels = sorted((cls.folder / "wheels").iterdir())
        cls.pip("install", "--no-deps", *cls.wheels)

    @classmethod
    def pip(cls, *words):
        return run(cls.bin / "python", "-m", "pip", "--disable-pip-version-check", *words)

    def python(self, *words, **environment):
        return run(self.bin / "python", "-B", *words, cwd=self.folder, **environment)

    def test_names(self):
        names = [re.sub(r"-linux_\w+", "", wheel.name) for wheel in self.wheels]
        version = self.python("-c", "import berth; print(berth.version())").strip()
        self.assertEqual(
            names, [f"berth-{version}-py3-none.whl", f"berth_sim-{version}-py3-none.whl"]
        )

    def test_what_is_needed(self):
        package = next((self.folder / "venv").rglob("site-packages/berth"))
        files = [path for path in package.rglob("*") if path.is_file()]
        own = {path.name for path in files}
        self.assertLessEqual({"allocator.cpp", "memory_functions.hpp"}, own)
        run(sys.executable, "-B", CHECKOUT / "tests/tidy/check_hardening.py", package)
        programs = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreater(len(programs), 6)
        for path in programs:
            dynamic = run("readelf", "-d", path)
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
            self.assertEqual(needed - own - SYSTEM, set(), path)
            for folder in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                self.assertTrue(folder.startswith("$ORIGIN"), f"{path}: {folder}")

    def test_auditwheel(self):
        try:
            self.pip("install", AUDITWHEEL)
        except AssertionError:
            self.skipTest(f"{AUDITWHEEL} cannot be downloaded")
        for wheel in self.wheels:
            said = run(self.bin / "auditwheel", "show", wheel)
            self.assertRegex(said, "manylinux_2_[0-9]+_")

    def test_the_module(self):
        for name in TESTS:
            self.python(
                CHECKOUT / f"tests/python/{name}_test.py",
                BERTH_DRIVER="sim",
                BERTH_SIM="devices=2,memory=1GiB,progress=manual",
            )

    def test_the_command(self):
        berth = self.bin / "berth"
        self.assertIn("Simulated GPU", run(berth, "devices", BERTH_DRIVER="sim"))
        self.assertIn("Simulated GPU", self.python("-m", "berth", "devices", BERTH_DRIVER="sim"))
        self.assertIn("gpt2-train", run(berth, "demo", BERTH_DRIVER="sim"))
        program = "import berth; print(berth.Runtime().devices)"
        said = run(berth, "sim", "--", self.bin / "python", "-c", program)
        self.assertIn('[berth.Device("cuda:0")]', said)

    def test_without_the_simulator(self):
        alone = self.folder / "alone"
        venv.create(alone, with_pip=True)
        run(alone / "bin/python", "-m", "pip", "install", "--no-deps", self.wheels[0])
        program = "import berth; print(berth.Runtime(driver='sim').driver.problem)"
        said = run(alone / "bin/python", "-c", program)
        self.assertIn("libberth_sim.so.0", said)
        said = run(alone / "bin/berth", "sim", "--", "true", status=1)
        self.assertIn("--libraries DIR", said)


if __name__ == "__main__":
    if os.environ.get("BERTH_TEST_WHEEL") != "1":
        print("skipped: BERTH_TEST_WHEEL=1 builds the wheels")
        sys.exit(77)
    unittest.main()
