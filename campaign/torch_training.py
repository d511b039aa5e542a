# SPDX-License-Identifier: Apache-2.0
"""A small transformer, trained on PyTorch's allocator, native and with expandable segments, and on berth's, for a
campaign. Batches come on a stream of their own, and their lengths take turns. The losses must be the same, bit for
bit. Exit status 77 where PyTorch or a GPU is not there, 1 where losses differ.
"""
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from program_run import SKIPPED
from torch_here import configured, import_torch

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "lib/libberth_torch.so"
CONFIGURATIONS = {"native": "", "expandable segments": "expandable_segments:True", "berth": ""}
STEPS = 2 if float(os.environ.get("BERTH_CAMPAIGN_SECONDS", "60")) <= 1 else 60
WIDTH, LAYERS, BATCH = 768, 8, 8
LENGTHS = (128, 384, 256, 512)


def use_berth(torch):
    names = ("berth_torch_alloc_or_throw", "berth_torch_free")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(LIBRARY), *names)
    torch.cuda.memory.change_current_allocator(allocator)
    # Python sets the further functions by their addresses.
    functions = ctypes.CDLL(str(LIBRARY))
    hooks = allocator.allocator()
    for name in ("record_stream", "reset"):
        address = ctypes.cast(getattr(functions, f"berth_torch_{name}"), ctypes.c_void_p).value
        getattr(hooks, f"set_{name}_fn")(address)


def weights_of(torch):
    """Of each layer: queries, keys and values; attention's output; the two of the feed-forward network."""
    shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    generator = torch.Generator(device="cuda").manual_seed(1)

    def weight(shape):
        return (torch.randn(shape, device="cuda", generator=generator) * 0.02).requires_grad_()

    return [[weight(shape) for shape in shapes] for _ in range(LAYERS)]


def forward(torch, weights, batch):
    # Multiplications and sums alone: other ways to attend are not the same on each run.
    hidden = batch
    for into, out, wider, narrower in weights:
        query, key, value = (hidden @ into).split(WIDTH, dim=-1)
        scores = (query @ key.transpose(-1, -2) * WIDTH**-0.5).softmax(dim=-1)
        hidden = hidden + scores @ value @ out
        hidden = hidden + torch.relu(hidden @ wider) @ narrower
        hidden = hidden / (hidden * hidden).mean(dim=-1, keepdim=True).sqrt()
    return ((hidden - batch) * (hidden - batch)).mean()


def train(torch):
    """The losses, the nanoseconds of each step, and how many bytes of the device it took at most."""
    host = torch.randn((BATCH, max(LENGTHS), WIDTH), generator=torch.Generator().manual_seed(2))
    # A part of a pinned tensor that is not contiguous would be copied from pageable memory.
    batches = [host[:, :length].contiguous().pin_memory() for length in LENGTHS]
    weights = weights_of(torch)
    loader, here = torch.cuda.Stream(), torch.cuda.current_stream()
    optimizer = torch.optim.AdamW([weight for layer in weights for weight in layer], lr=1e-3)
    losses, durations, free_least = [], [], torch.cuda.mem_get_info()[0]
    for step in range(STEPS):
        begin = time.perf_counter_ns()
        with torch.cuda.stream(loader):
            batch = batches[step % len(batches)].to("cuda", non_blocking=True)
        here.wait_stream(loader)
        batch.record_stream(here)
        optimizer.zero_grad()
        loss = forward(torch, weights, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        durations.append(time.perf_counter_ns() - begin)
        free_least = min(free_least, torch.cuda.mem_get_info()[0])
    return losses, durations, free_least


def train_on(name):
    torch = import_torch()
    if name == "berth":
        use_berth(torch)
    torch.use_deterministic_algorithms(True)
    torch.cuda.synchronize()
    free_before = torch.cuda.mem_get_info()[0]
    losses, durations, free_least = train(torch)
    steady = durations[len(durations) // 2 :]
    values = {"ns_a_step": statistics.median(steady), "bytes_at_most": free_before - free_least}
    print(json.dumps({"losses": [loss.hex() for loss in losses], "values": values}), flush=True)
    return 0


def last_object(text):
    """The last line, where that is JSON; None otherwise."""
    try:
        return json.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        return None


def main():
    if len(sys.argv) == 2:
        return train_on(sys.argv[1])
    expected = None
    worst = SKIPPED
    for name, configuration in CONFIGURATIONS.items():
        # What cuBLAS asks for results that repeat.
        environment = configured(configuration) | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        done = subprocess.run(
            [sys.executable, "-B", __file__, name],
            env=environment, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        row = {"figure": "torch_training", "row": name}
        status = done.returncode
        found = last_object(done.stdout)  # a process may fail at its end, behind all results
        if found is not None:
            row |= found["values"]
            expected = expected or found["losses"]
            row["losses"] = "the same" if found["losses"] == expected else "others"
            status = status or (0 if found["losses"] == expected else 1)
        if done.returncode not in (0, SKIPPED):
            row |= {"outcome": "failed", "exit_status": done.returncode}
        if status != SKIPPED:
            print(json.dumps(row), flush=True)
        worst = status if status not in (0, SKIPPED) or worst == SKIPPED else worst
    return worst


if __name__ == "__main__":
    sys.exit(main())
