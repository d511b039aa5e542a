# SPDX-License-Identifier: Apache-2.0
"""The command `berth` of the wheel, a native program."""

from __future__ import annotations

import os
import pathlib
import sys
import typing


def main() -> typing.NoReturn:
    """Replaces this process by the program beside the library."""
    own = pathlib.Path(__file__).parent / "bin" / "berth"
    if not own.exists():
        sys.exit(f"{own} is missing: this is the Python module alone, without the wheel's command")
    os.execv(own, ["berth", *sys.argv[1:]])


if __name__ == "__main__":
    main()
