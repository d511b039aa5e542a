# SPDX-License-Identifier: Apache-2.0
"""Replays a recorded trace on the allocator of this PyTorch process, and prints what it costs as
JSON. report.py runs it on the simulated driver, once for each allocator.

  measure.py native|empty|plugin|full TRACE STREAMS PASSES FOLDER

empty: a plug-in that does nothing, the bound of plug-ins.

STREAMS: blocks take turns on so many streams; 0: those of the trace. FOLDER: for what it compiles.
"""

import csv
import ctypes
import gzip
import io
import json
import pathlib
import statistics
import subprocess
import sys
import time

import berth.torch
import torch
from berth.torch import _full

WARM_UP_PASSES = 4


class Operation(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64), ("slot", ctypes.c_uint32), ("stream", ctypes.c_uint32)]


def rows(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        text = "".join(line for line in file if not line.startswith("#"))
    return csv.DictReader(io.StringIO(text))


def read(path, streams):
    """The operations, the number of slots, and the most bytes that are live at one time. At the
    end, everything is freed."""
    operations, slots, idle, sizes = [], {}, [], {}
    live = peak = count = 0
    numbers = {}

    def free(name):
        nonlocal live
        live -= sizes.pop(name)
        slot, stream = slots.pop(name)
        idle.append(slot)
        operations.append((0, slot, stream))

    for row in rows(path):
        name, size = int(row["id"]), int(row["bytes"])
        if row["op"] in ("init_alloc", "alloc") and size > 0:
            if streams == 0:
                stream = numbers.setdefault(row["stream"], len(numbers))
            else:
                stream = count % streams
            slot = idle.pop() if idle else len(slots)
            slots[name], sizes[name] = (slot, stream), size
            operations.append((size, slot, stream))
            live, count = live + size, count + 1
            peak = max(peak, live)
        elif row["op"] in ("free", "free_completed") and name in slots:
            free(name)
    for name in list(slots):
        free(name)
    return operations, peak


def compile_library(folder):
    """allocator_calls.cpp for this PyTorch."""
    target = pathlib.Path(folder) / f"allocator_calls-{torch.__version__}.so"
    source = pathlib.Path(__file__).with_name("allocator_calls.cpp")
    if not target.exists():
        command = [word for word in _full._command(torch) if not word.endswith(".cpp")]
        end = command.index("-lc10_cuda") - 1
        command[end:end] = [str(source)]
        subprocess.run([*command, "-o", str(target)], check=True)
    return str(target)


def loaded(path):
    library = ctypes.CDLL(path)
    library.run_operations.restype = ctypes.c_double
    return library


def raw_passes(library, operations, streams, passes):
    """Nanoseconds of one operation in each pass."""
    array = (Operation * len(operations))(*operations)
    slots = max(slot for _, slot, _ in operations) + 1
    handles = (ctypes.c_void_p * len(streams))(*[stream.cuda_stream for stream in streams])
    for _ in range(passes):
        took = library.run_operations(array, len(operations), ctypes.c_size_t(slots), handles)
        yield took / len(operations)


def python_passes(operations, stream, passes):
    """The same with tensors, on one stream."""
    live = [None] * (max(slot for _, slot, _ in operations) + 1)
    empty, uint8, device = torch.empty, torch.uint8, torch.device("cuda:0")
    with torch.cuda.stream(stream):
        for _ in range(passes):
            start = time.perf_counter_ns()
            for size, slot, _ in operations:
                live[slot] = empty(size, dtype=uint8, device=device) if size else None
            yield (time.perf_counter_ns() - start) / len(operations)


def bytes_reserved(allocator):
    if allocator == "plugin":
        return berth.torch.runtime().memory("cuda:0").counters().bytes_reserved.peak
    if allocator == "empty":
        return 0
    return torch.cuda.max_memory_reserved()


def main(allocator, trace, streams, passes, folder):
    if allocator in ("plugin", "full"):
        berth.torch.enable(full=allocator == "full")
    operations, peak = read(trace, int(streams))
    path = compile_library(folder)
    if allocator == "empty":
        empty = torch.cuda.memory.CUDAPluggableAllocator(path, "empty_alloc", "empty_free")
        torch.cuda.memory.change_current_allocator(empty)
    library = loaded(path)
    torch.cuda.init()
    count = max(stream for _, _, stream in operations) + 1
    handles = [torch.cuda.Stream() for _ in range(count)]
    next(raw_passes(library, operations, handles, 1))
    found = {"operations": len(operations), "reserved_first": bytes_reserved(allocator) / peak}
    times = list(raw_passes(library, operations, handles, WARM_UP_PASSES + int(passes)))
    found["raw_ns"] = statistics.median(times[WARM_UP_PASSES:])
    found["reserved"] = bytes_reserved(allocator) / peak
    if count == 1:
        times = list(python_passes(operations, handles[0], WARM_UP_PASSES + int(passes)))
        found["python_ns"] = statistics.median(times[WARM_UP_PASSES:])
    print(json.dumps(found))


main(*sys.argv[1:])
