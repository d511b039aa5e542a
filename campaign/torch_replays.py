# SPDX-License-Identifier: Apache-2.0
"""The recorded programs on PyTorch's allocator, native and with expandable segments, for a campaign: what
campaign_replays does with berth's. Exit status 77 where PyTorch or a GPU is not there.
"""
import csv
import gzip
import json
import pathlib
import subprocess
import sys
import time

from program_run import SKIPPED
from torch_here import configured, import_torch

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
PASSES = 4
CONFIGURATIONS = {"native": "", "expandable segments": "expandable_segments:True"}


def read_operations(path):
    """Of a trace: (id, bytes, stream) of each allocation, and (id, 0, stream) of each free. What is left live is
    freed at the end."""
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


def replay_all(name):
    torch = import_torch()
    allocate = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    for path in sorted((BUNDLE / "bench/traces").glob("*.csv.gz")):
        operations, count = read_operations(path)
        streams = [torch.cuda.Stream() for _ in range(count)]
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        peak = peak_of(operations)
        trace = path.name.partition(".")[0]
        for number in range(1, PASSES + 1):
            native = [stream.cuda_stream for stream in streams]
            took = replay(operations, native, allocate, free)
            of_python = replay(operations, native, lambda size, stream: size, lambda block: None)
            waste = torch.cuda.max_memory_reserved() / peak - 1
            values = {
                "ns_an_operation": took / len(operations),
                "ns_of_the_loop_in_python": of_python / len(operations),
                "waste_percent": 100 * waste,
            }
            row = {"figure": "torch_replays", "row": f"{trace}, {name}, pass {number}"} | values
            print(json.dumps(row), flush=True)
    return 0


def main():
    if len(sys.argv) == 2:
        return replay_all(sys.argv[1])
    worst = SKIPPED
    for name, configuration in CONFIGURATIONS.items():
        environment = configured(configuration)
        command = [sys.executable, "-B", __file__, name]
        status = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL).returncode
        worst = status if status not in (0, SKIPPED) or worst == SKIPPED else worst
    return worst


if __name__ == "__main__":
    sys.exit(main())
