#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of the tutorial's page about plug-ins prints on a plug-in what the page shows.

  tutorial_page_test.py PAGE PROGRAM PLUGIN
"""

import os
import pathlib
import subprocess
import sys
import tempfile

COMMAND = "$ BERTH_DRIVER=sim ./12_plugins\n"


def main():
    page, program, plugin = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shown = page.read_text(encoding="utf-8").split(COMMAND)[1].split("$ ")[0]
    environment = {**os.environ, "BERTH_DRIVER": "sim", "BERTH_CONF": f"pjrt=tpu:{plugin}"}
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(
            [program], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
        ).stdout
    if printed == shown:
        return 0
    print(f"{printed}--- instead of\n{shown}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
