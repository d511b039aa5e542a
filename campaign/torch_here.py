# SPDX-License-Identifier: Apache-2.0
"""PyTorch, where it is there and sees a GPU."""
import os
import sys

from program_run import SKIPPED


def configured(allocator):
    """The environment of a process whose PyTorch has this configuration of its allocator, and no other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    return kept | {"PYTORCH_CUDA_ALLOC_CONF": allocator}


def import_torch():
    """Ends the program with status 77 where it is not. PyTorch reads its environment here."""
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(SKIPPED)
    return torch
