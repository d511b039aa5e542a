# SPDX-License-Identifier: Apache-2.0
"""PyTorch, where it is there and sees a GPU."""
import sys

from program_run import SKIPPED


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
