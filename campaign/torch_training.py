# SPDX-License-Identifier: Apache-2.0
"""A small transformer, trained on PyTorch's allocator, native and with expandable segments, and on
berth's, for a campaign. Batches come on a stream of their own, and their lengths take turns. The
losses must be the same, bit for bit. Exit status 77 where PyTorch or a GPU is not there, 1 where
losses differ."""

import ctypes
import json
import pathlib
import statistics
import sys
import time

import plan
from torch_here import import_torch, run_each

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "lib/libberth_torch.so"
CONFIGURATIONS = {"native": "", "expandable segments": "expandable_segments:True", "berth": ""}
STEPS = 2 if plan.is_quick() else 60
WIDTH, LAYERS, BATCH = 768, 8, 8
LENGTHS = (128, 384, 256, 512)


def use_berth(torch):
    names = ("berth_torch_alloc_or_throw", "berth_torch_free")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(LIBRARY), *names)
    torch.cuda.memory.change_current_allocator(allocator)
    # Python passes the other functions by their addresses.
    functions = ctypes.CDLL(str(LIBRARY))
    hooks = allocator.allocator()
    for name in ("record_stream", "reset"):
        address = ctypes.cast(getattr(functions, f"berth_torch_{name}"), ctypes.c_void_p).value
        getattr(hooks, f"set_{name}_fn")(address)


def weights_of(torch):
    """Of each layer: queries, keys and values; attention's output; the two of the feed-forward
    network."""
    shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    generator = torch.Generator(device="cuda").manual_seed(1)

    def weight(shape):
        return (torch.randn(shape, device="cuda", generator=generator) * 0.02).requires_grad_()

    return [[weight(shape) for shape in shapes] for _ in range(LAYERS)]


def forward(torch, weights, batch):
    # Only multiplications and sums, because other attention kernels are not reproducible.
    hidden = batch
    for into, out, wider, narrower in weights:
        query, key, value = (hidden @ into).split(WIDTH, dim=-1)
        scores = (query @ key.transpose(-1, -2) * WIDTH**-0.5).softmax(dim=-1)
        hidden = hidden + scores @ value @ out
        hidden = hidden + torch.relu(hidden @ wider) @ narrower
        hidden = hidden / (hidden * hidden).mean(dim=-1, keepdim=True).sqrt()
    return ((hidden - batch) * (hidden - batch)).mean()


def train(torch):
    """The losses, the nanoseconds of each step, and the least bytes that were free on the device
    after one."""
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


class Comparison:
    """Of the losses of each process with those of the first."""

    def __init__(self):
        self.expected = None
        self.differs = False
        self.row = {}

    def on_row(self, _, found):
        self.expected = self.expected or found["losses"]
        is_same = found["losses"] == self.expected
        self.differs |= not is_same
        self.row = found["values"] | {"losses": "the same" if is_same else "others"}

    def on_ending(self, name, ending):
        """A process may fail at its end, after all results."""
        row, self.row = {"figure": "torch_training", "row": name} | self.row, {}
        if ending.outcome not in ("done", "skipped"):
            row |= ending.to_json()
        if ending.outcome != "skipped":
            print(json.dumps(row), flush=True)


def main():
    if len(sys.argv) == 2:
        return train_on(sys.argv[1])
    compared = Comparison()
    # cuBLAS needs this for reproducible results.
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    status = run_each(__file__, CONFIGURATIONS, environment, compared.on_row, compared.on_ending)
    return 1 if compared.differs else status


if __name__ == "__main__":
    sys.exit(main())
