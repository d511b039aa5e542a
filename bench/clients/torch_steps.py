# SPDX-License-Identifier: Apache-2.0
"""What a training loop asks of streams, without its kernels: torch_steps.py STEPS BYTES

Each step copies a batch from pinned memory on a side stream, hands it to the main stream, copies a
result back, and drops the tensors. Prints the microseconds of processor time that a step takes, of
all threads: others on the machine disturb those less than the time that passes.
"""

import sys
import time

import torch


def step(side, batch, back):
    main = torch.cuda.current_stream()
    with torch.cuda.stream(side):
        fresh = batch.to("cuda", non_blocking=True)
    main.wait_stream(side)
    fresh.record_stream(main)
    result = torch.empty_like(fresh)
    result.copy_(fresh, non_blocking=True)
    back.copy_(result, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    side.wait_stream(main)


def main():
    steps, count = int(sys.argv[1]), int(sys.argv[2])
    side = torch.cuda.Stream()
    batch = torch.ones(count, dtype=torch.uint8).pin_memory()
    back = torch.empty(count, dtype=torch.uint8, pin_memory=True)
    for _ in range(steps // 10):
        step(side, batch, back)
    begin = time.process_time()
    for _ in range(steps):
        step(side, batch, back)
    print(f"{(time.process_time() - begin) / steps * 1e6:.1f}")


if __name__ == "__main__":
    main()
