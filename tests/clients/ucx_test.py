#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UCX moves berth's pinned memory between two processes, through shared memory and by TCP."""

import pathlib
import subprocess
import tempfile
import unittest

import client

SOURCE = client.ROOT / "tests/clients/ucx_program.c"


class Ucx(unittest.TestCase):
    def test_pinned_memory_moves_between_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "ucx_program"
            flags = client.done("pkg-config", "--cflags", "--libs", "ucx").split()
            client.done("cc", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", program,
                        *client.berth_flags(), *flags)  # fmt: skip
            for transports in ("posix,self", "posix,cma,self", "tcp,self"):
                with self.subTest(transports):
                    printed = client.done(program, BERTH_DRIVER="sim", UCX_TLS=transports)
                    self.assertEqual(printed, "all bytes arrived\n")


if __name__ == "__main__":
    found = subprocess.run(["pkg-config", "--exists", "ucx"], check=False)
    client.run("libucx-dev" if found.returncode != 0 else None)
