#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example in Rust (docs/examples/rust), with the declarations that bindgen makes of the C
headers."""

import pathlib
import shutil
import tempfile
import unittest

import client

EXAMPLE = client.ROOT / "docs/examples/rust/round_trip.rs"


def commands():
    """Those of the example's own comment, but for the folders of an installed berth."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    shell = "\n".join(line[8:] for line in lines if line.startswith("//!     "))
    header = '"$(pkg-config --variable=includedir berth)/berth/berth.h"'
    include, library, _ = client.berth_flags()
    for installed, here in (
        (header, str(client.ROOT / "include/berth/berth.h")),
        ("$(pkg-config --cflags berth)", include),
        ("$(pkg-config --libs-only-L berth)", library),
        ("BERTH_DRIVER=auto", "BERTH_DRIVER=sim"),
    ):
        assert installed in shell, installed
        shell = shell.replace(installed, here)
    return shell


class Rust(unittest.TestCase):
    def test_the_example(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(EXAMPLE, folder)
            printed = client.done("sh", "-ec", commands(), cwd=folder)
            sent, refused = printed.splitlines()
            self.assertEqual(sent, "there and back")
            self.assertRegex(refused, "refused: cuda:0 is out of memory: asked for .*, accepted: ")


if __name__ == "__main__":
    missing = [name for name in ("bindgen", "rustc") if shutil.which(name) is None]
    client.run(", ".join(missing))
