# SPDX-License-Identifier: Apache-2.0
"""What the tests share that run programs of others on the look-alikes. They need LD_LIBRARY_PATH to
name the folder of the look-alikes, and PYTHONPATH that of the wheels."""

import importlib.util
import sys
import unittest

SKIPPED = 77


def run(*needed):
    """Runs the tests of the main module; exits as skipped where a module of `needed` is missing."""
    for module in needed:
        if not is_there(module):
            print(f"skipped: no Python module {module}; `./run test` fetches it")
            sys.exit(SKIPPED)
    unittest.main()


def is_there(module):
    package = module.partition(".")[0]
    return (
        importlib.util.find_spec(package) is not None
        and importlib.util.find_spec(module) is not None
    )


def given(outcome):
    """What a call of cuda-bindings gave: nothing, one value, or a tuple; raises where it failed."""
    code, *values = outcome
    if code != 0:
        raise AssertionError(f"the call failed with {code!r}")
    return values[0] if len(values) == 1 else tuple(values) or None
