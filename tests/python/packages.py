# SPDX-License-Identifier: Apache-2.0
"""Packages of others that tests use: those of the folder that BERTH_PYTHON_WHEELS names."""

import importlib
import os
import site
import sys

EXIT_SKIPPED = 77
FOLDER = os.environ.get("BERTH_PYTHON_WHEELS", "")


def use():
    """Makes the packages importable, with what they do when an interpreter starts."""
    if FOLDER:
        site.addsitedir(FOLDER)


def need(*names):
    """Imports modules, or ends the test as skipped."""
    use()
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"skipped: {error}; `./run test python` fetches it")
            sys.exit(EXIT_SKIPPED)
