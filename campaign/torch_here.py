# SPDX-License-Identifier: Apache-2.0
"""PyTorch, if it is installed and sees a GPU."""

import os
import sys
import time

import plan
import program_run
import stacks
from program_run import SKIPPED


def configured(allocator):
    """The environment of a process whose PyTorch has this configuration of its allocator, and no
    other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    return kept | {"PYTORCH_CUDA_ALLOC_CONF": allocator}


def import_torch():
    """Ends the program with status 77 if it cannot be used. PyTorch reads its environment here."""
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(SKIPPED)
    torch.cuda.init()
    return torch


def run_each(file, configurations, environment, on_row, on_ending):
    """Runs `file NAME` for each configuration, since an allocator is chosen once for a process,
    with an equal share of the time that is left. Calls on_row(name, row) for each row, and
    on_ending(name, ending). Returns the exit status of the worst: 77 if none can run here."""
    end = time.monotonic() + plan.limit_seconds()
    status = SKIPPED
    for number, (name, configuration) in enumerate(configurations.items()):
        ending = program_run.run(
            [sys.executable, "-B", file, name],
            seconds=(end - time.monotonic()) / (len(configurations) - number),
            environment=configured(configuration) | environment,
            on_row=lambda row, name=name: on_row(name, row),
            on_hang=stacks.collect,
        )
        on_ending(name, ending)
        if ending.outcome not in ("done", "skipped"):
            status = 1
        elif ending.outcome == "done" and status == SKIPPED:
            status = 0
        sys.stderr.write(ending.text if ending.outcome == "skipped" else "")
    return status
