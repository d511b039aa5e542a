# SPDX-License-Identifier: Apache-2.0
"""Arrays of CuPy on its own pool and on berth's allocator, for a campaign: the same sums, and what
a step takes. Exit status 77 where CuPy or a GPU is not there, 1 where sums differ."""

import ctypes
import json
import pathlib
import statistics
import sys
import time

from program_run import SKIPPED

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "lib/libberth_torch.so"
STEPS = 30
SIZES = [4096 << step for step in range(0, 12, 2)]


def import_cupy():
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() > 0:
            return cupy
        why = "CuPy sees no GPU"
    except Exception as error:  # CuPy's own, which has no name where CuPy is not there
        why = str(error)
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def berth_of(cupy):
    functions = ctypes.CDLL(str(LIBRARY))
    functions.berth_torch_alloc.restype = ctypes.c_void_p
    functions.berth_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    functions.berth_torch_free.restype = None
    functions.berth_torch_free.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]

    def allocate(size, device):
        block = functions.berth_torch_alloc(size, device, cupy.cuda.get_current_stream().ptr)
        if size > 0 and not block:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0)
        return block or 0

    def free(block, device):
        functions.berth_torch_free(block, 0, device, 0)

    return cupy.cuda.memory.PythonFunctionAllocator(allocate, free).malloc


def step(cupy):
    total = 0.0
    for size in SIZES:
        first = cupy.arange(size, dtype=cupy.float64)
        second = first * 2 + 1
        total += float((first * second).sum())
    return total


def main():
    cupy = import_cupy()
    expected = None
    same = True
    for name, allocator in (
        ("CuPy's pool", cupy.cuda.MemoryPool().malloc),
        ("berth", berth_of(cupy)),
    ):
        cupy.cuda.set_allocator(allocator)
        durations = []
        for _ in range(STEPS):
            begin = time.perf_counter_ns()
            total = step(cupy)
            durations.append(time.perf_counter_ns() - begin)
        expected = total if expected is None else expected
        same &= total == expected
        row = {"figure": "cupy_arrays", "row": name, "ns_a_step": statistics.median(durations)}
        print(json.dumps(row | {"sums": "the same" if total == expected else "others"}), flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
