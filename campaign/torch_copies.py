# SPDX-License-Identifier: Apache-2.0
"""PyTorch's copies between host and device, for a campaign: what campaign_copies does with berth's.
Exit status 77 where PyTorch or a GPU is not there."""

import json
import statistics
import sys
import time

from torch_here import import_torch

TURNS = 15
SIZES = [4 << 10 << 4 * step for step in range(5)]  # 4 KiB to 256 MiB


def size_text(size):
    """In the format of campaign_copies."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def rate(torch, target, source):
    durations = []
    for _ in range(TURNS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        durations.append(time.perf_counter_ns() - begin)
    return source.numel() / statistics.median(durations[1:])


def main():
    torch = import_torch()
    for pinned in (True, False):
        for size in SIZES:
            host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
            device = torch.ones(size, dtype=torch.uint8, device="cuda")
            kind = "pinned" if pinned else "pageable"
            for name, target, source in (
                ("to the device", device, host),
                ("from the device", host, device),
            ):
                at = {"size": size_text(size), "host memory": kind, "direction": name}
                row = {"figure": "torch_copies", "row": ", ".join(at.values()), "at": at}
                rated = {"gigabytes_per_second": rate(torch, target, source)}
                print(json.dumps(row | rated), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
