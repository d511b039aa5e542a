# SPDX-License-Identifier: Apache-2.0
"""What a training program asks of PyTorch's allocator, with copies instead of kernels, which the
simulated driver does not run:

  torch_training.py native|plugin|full|nothing CASE...

Prints each case that has passed. `nothing`: the program itself chooses.
"""

import csv
import gc
import gzip
import io
import os
import sys
import threading

import torch

NUMBERS = 1 << 18
MIB = 1 << 20


def random_batch(count=NUMBERS):
    return torch.randint(0, 1 << 30, (count,), dtype=torch.int32)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.full((NUMBERS // 8,), index, dtype=torch.int32)


def steps(loader):
    """Each batch goes to the device on a stream of its own, through layers, and back."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    weights = [torch.empty(NUMBERS, dtype=torch.int32, device="cuda") for _ in range(4)]
    for batch in loader:
        with torch.cuda.stream(side):
            moved = batch.to("cuda", non_blocking=True)
        main.wait_stream(side)
        moved.record_stream(main)
        activations = [moved]
        for _ in weights:
            activations.append(torch.empty_like(moved).copy_(activations[-1]))
        gradients = [torch.empty_like(kept) for kept in reversed(activations)]
        for weight in weights:
            weight[: batch.numel()].copy_(activations[-1].flatten())
        result = activations[-1].cpu()
        assert torch.equal(result, batch), "the bytes differ"
        del activations, gradients, moved


def train():
    steps([random_batch().pin_memory() for _ in range(20)])


def workers():
    """Workers are forked from a process that has used CUDA."""
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True)
    for _ in range(2):
        steps(loader)


def forked():
    """A child has tensors of its parent, which it drops, and ends."""
    kept = [torch.empty(NUMBERS, device="cuda"), torch.empty(NUMBERS, device="cuda:1")]
    child = os.fork()
    if child == 0:
        kept.clear()
        gc.collect()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    del kept
    train()


def threads():
    failures = []

    def run():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                steps([random_batch().pin_memory() for _ in range(5)])
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=run) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures, failures


def streams():
    """The programs of torch_races.py without their mistakes: record_stream() is one that they
    need."""
    import torch_races

    for program in (torch_races.wait, torch_races.record, torch_races.reuse):
        program(True)


def graphs():
    """Memory that a capture allocates belongs to the graph."""
    numbers = random_batch()
    static = numbers.to("cuda")
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            middle = torch.empty_like(static).copy_(static)
            result = torch.empty_like(static).copy_(middle)
        beside = [torch.empty(NUMBERS, dtype=torch.int32, device="cuda") for _ in range(8)]
        numbers = random_batch()
        static.copy_(numbers)
        graph.replay()
        assert torch.equal(result.cpu(), numbers)
        del beside, middle, result
        graph.reset()
        torch.cuda.empty_cache()


def empty_cache():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.mem_get_info()[0]
    block = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    del block
    assert torch.cuda.mem_get_info()[0] <= before - 256 * MIB
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == before


def out_of_memory():
    """Fails alone, and the next allocation works. All but the plug-in raise PyTorch's own error."""
    for size in (2 << 30, 1 << 50):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert ALLOCATOR != "plugin"
            assert "CUDA out of memory. Tried to allocate" in str(error), error
        except RuntimeError as error:
            assert ALLOCATOR == "plugin"
            assert "out of memory" in str(error), error
        else:
            raise AssertionError(f"{size} bytes of 1 GiB")
    train()


def cached_memory_serves():
    """What is cached for one stream serves another when memory is short."""
    with torch.cuda.stream(torch.cuda.Stream()):
        blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(10)]
    del blocks
    whole = torch.empty(800 * MIB, dtype=torch.uint8, device="cuda")
    del whole


def two_devices():
    """Copies between devices, with the numbers that CUDA_VISIBLE_DEVICES gives them."""
    numbers = random_batch()
    first = numbers.to("cuda:0")
    second = torch.empty_like(first, device="cuda:1").copy_(first)
    assert torch.equal(second.cpu(), numbers)
    with torch.cuda.device(1):
        train()
    back = second.to("cuda:0", non_blocking=True)
    del second
    assert torch.equal(back.cpu(), numbers)
    if ALLOCATOR in ("plugin", "full"):
        import berth.torch

        for index in range(2):
            ours = berth.torch.runtime().device_info(f"cuda:{index}").uuid
            assert str(torch.cuda.get_device_properties(index).uuid) in ours
        assert berth.torch.runtime().memory("cuda:1").counters().allocations > 0


def operations(path):
    """(is allocation, id, bytes) of a recorded trace."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        text = "".join(line for line in file if not line.startswith("#"))
    for row in csv.DictReader(io.StringIO(text)):
        if row["op"] in ("init_alloc", "alloc"):
            yield True, int(row["id"]), int(row["bytes"])
        elif row["op"] in ("free", "free_completed"):
            yield False, int(row["id"]), 0


def replay():
    """A recorded training program on three streams; each hundredth block is filled, and compared
    when it is freed."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    live, filled = {}, {}
    for number, (is_allocation, name, size) in enumerate(operations(os.environ["TRACE"])):
        if not is_allocation:
            if name in filled:
                assert torch.equal(live[name].cpu(), filled.pop(name))
            live.pop(name, None)
            continue
        with torch.cuda.stream(streams[name % 3]):
            live[name] = torch.empty(size, dtype=torch.uint8, device="cuda")
            if number % 100 == 0 and size < MIB:
                filled[name] = torch.randint(0, 255, (size,), dtype=torch.uint8)
                live[name].copy_(filled[name])
                torch.cuda.current_stream().synchronize()
    live.clear()
    torch.cuda.synchronize()
    print("peak", peak_reserved())


def peak_reserved():
    if ALLOCATOR == "plugin":
        import berth.torch

        return berth.torch.runtime().memory("cuda:0").counters().bytes_reserved.peak
    return torch.cuda.max_memory_reserved()


def live_at_exit():
    """The interpreter ends with tensors, a graph and a thread that has allocated."""
    global kept
    graph = torch.cuda.CUDAGraph()
    static = random_batch().to("cuda")
    with torch.cuda.graph(graph):
        copy = torch.empty_like(static).copy_(static)
    kept = [graph, static, copy, torch.empty(MIB, device="cuda:1")]
    kept.append(kept)


ALLOCATOR = sys.argv[1]
if __name__ == "__main__":
    if ALLOCATOR in ("plugin", "full"):
        import berth.torch

        berth.torch.enable(full=ALLOCATOR == "full")
    for case in sys.argv[2:]:
        globals()[case]()
        print(case)
