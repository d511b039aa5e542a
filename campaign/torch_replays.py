# SPDX-License-Identifier: Apache-2.0
"""The recorded programs on PyTorch's allocator, native and with expandable segments, for a
campaign: what campaign_replays does with berth's. Exit status 77 where PyTorch or a GPU is not
there."""

import csv
import gzip
import json
import pathlib
import sys
import time

from torch_here import import_torch, run_each

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
PASSES = 4
CONFIGURATIONS = {"native": "", "expandable segments": "expandable_segments:True"}


def read_operations(path):
    """Of a trace: (id, bytes, stream) of each allocation, and (id, 0, stream) of each free. What is
    left live is freed at the end."""
    operations = []
    live = {}
    streams = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        for row in rows:
            if row["op"] in ("init_alloc", "alloc") and int(row["bytes"]) > 0:
                stream = streams.setdefault((row["device"], row["stream"]), len(streams))
                live[row["id"]] = stream
                operations.append((row["id"], int(row["bytes"]), stream))
            elif row["op"] in ("free", "free_requested") and row["id"] in live:
                operations.append((row["id"], 0, live.pop(row["id"])))
    operations.extend((block, 0, stream) for block, stream in live.items())
    return operations, max(len(streams), 1)


def peak_of(operations):
    sizes = {}
    live = peak = 0
    for block, size, _ in operations:
        live += size if size > 0 else -sizes[block]
        sizes[block] = size
        peak = max(peak, live)
    return peak


def replay(operations, streams, allocate, free):
    """One pass, in nanoseconds."""
    blocks = {}
    begin = time.perf_counter_ns()
    for block, size, stream in operations:
        if size > 0:
            blocks[block] = allocate(size, streams[stream])
        else:
            free(blocks.pop(block))
    return time.perf_counter_ns() - begin


def replay_passes(torch, trace, operations, count, name):
    allocate = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    streams = [torch.cuda.Stream() for _ in range(count)]
    native = [stream.cuda_stream for stream in streams]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    peak = peak_of(operations)
    for number in range(1, PASSES + 1):
        took = replay(operations, native, allocate, free)
        of_python = replay(operations, native, lambda size, stream: size, lambda block: None)
        values = {
            "ns_an_operation": took / len(operations),
            "ns_of_the_loop_in_python": of_python / len(operations),
            "waste_percent": 100 * (torch.cuda.max_memory_reserved() / peak - 1),
        }
        row = {"figure": "torch_replays", "row": f"{trace}, {name}, pass {number}"} | values
        print(json.dumps(row), flush=True)


def replay_all(name):
    torch = import_torch()
    status = 0
    for path in sorted((BUNDLE / "bench/traces").glob("*.csv.gz")):
        trace = path.name.partition(".")[0]
        operations, count = read_operations(path)
        try:
            replay_passes(torch, trace, operations, count, name)
        except (
            RuntimeError
        ) as error:  # out of memory, most of all: what is still allocated stays so
            row = {
                "figure": "torch_replays",
                "row": f"{trace}, {name}",
                "outcome": "failed",
                "text": str(error)[:2000],
            }
            print(json.dumps(row), flush=True)
            status = 1
    return status


def say_ending(name, ending):
    if ending.outcome not in ("done", "skipped"):
        print(json.dumps({"figure": "torch_replays", "row": name} | ending.to_json()), flush=True)


def main():
    if len(sys.argv) == 2:
        return replay_all(sys.argv[1])
    return run_each(
        __file__,
        CONFIGURATIONS,
        {},
        lambda name, row: print(json.dumps(row), flush=True),
        say_ending,
    )


if __name__ == "__main__":
    sys.exit(main())
