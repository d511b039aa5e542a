# SPDX-License-Identifier: Apache-2.0
"""Three mistakes with PyTorch's streams, and the same programs without them:

  torch_races.py wait|record|reuse wrong|right

Copies alone, since the simulated driver runs no kernels. They print nothing: the simulated driver
judges them.
"""

import sys

import torch

NUMBERS = 1 << 20


def wait(is_right):
    """A stream uses a tensor that another stream fills, and waits for it or not."""
    side = torch.cuda.Stream()
    batch = torch.ones(NUMBERS, pin_memory=True)
    tensor = torch.empty(NUMBERS, device="cuda")
    tensor.copy_(batch, non_blocking=True)
    if is_right:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        back = torch.empty(NUMBERS, pin_memory=True).copy_(tensor, non_blocking=True)
    side.synchronize()
    del back


def record(is_right):
    """A tensor is freed while another stream reads it, and the allocator is told or not."""
    main, side = torch.cuda.Stream(), torch.cuda.Stream()
    batch = torch.ones(NUMBERS, pin_memory=True)
    back = torch.empty(NUMBERS, pin_memory=True)
    with torch.cuda.stream(main):
        tensor = batch.to("cuda", non_blocking=True)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        back.copy_(tensor, non_blocking=True)
    if is_right:
        tensor.record_stream(side)
    del tensor
    with torch.cuda.stream(main):
        batch.to("cuda", non_blocking=True)
    torch.cuda.synchronize()


def reuse(is_right):
    """A pinned buffer is filled again from a device while a stream still reads it, or is not."""
    upload, download = torch.cuda.Stream(), torch.cuda.Stream()
    buffer = torch.ones(NUMBERS, pin_memory=True)
    first = torch.empty(NUMBERS, device="cuda")
    second = torch.empty(NUMBERS, device="cuda")
    second.copy_(buffer)
    torch.cuda.synchronize()
    with torch.cuda.stream(upload):
        first.copy_(buffer, non_blocking=True)
    if is_right:
        download.wait_stream(upload)
    with torch.cuda.stream(download):
        buffer.copy_(second, non_blocking=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    {"wait": wait, "record": record, "reuse": reuse}[sys.argv[1]](sys.argv[2] == "right")
