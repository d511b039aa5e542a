# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reports of berth's full allocator, and what is refused by name.

  torch_full.py
"""

import gc

import berth.torch
import torch

MIB = 1 << 20

berth.torch.enable(full=True)
berth.torch.enable(full=True)  # no effect


def bytes_on(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def refused(call, words):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{words}: not refused")


def statistics():
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    before = torch.cuda.memory_stats()
    block, other = bytes_on(3 * MIB + 1), bytes_on(MIB)
    assert torch.cuda.memory_allocated() == before["allocated_bytes.all.current"] + 4 * MIB + 512
    del block
    stats = torch.cuda.memory_stats()
    for key, value in {
        "allocation.all.allocated": 2,
        "allocation.all.freed": 1,
        "allocated_bytes.all.allocated": 4 * MIB + 512,
        "allocated_bytes.all.freed": 3 * MIB + 512,
        "requested_bytes.all.allocated": 4 * MIB + 1,
        "requested_bytes.all.freed": 3 * MIB + 1,
        "num_ooms": 0,
    }.items():
        assert stats[key] == value, (key, stats[key])
    live = torch.cuda.memory_allocated()
    assert torch.cuda.max_memory_allocated() == live + 3 * MIB + 512
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == live
    assert torch.cuda.memory_reserved() >= live
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()
    assert torch.accelerator.memory_allocated() == live
    assert torch.cuda.memory.get_allocator_backend() == "berth"
    del other
    assert torch.cuda.memory_stats("cuda:1")["allocation.all.allocated"] == 0


def errors():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: seen.append(facts))
    try:
        bytes_on(2 << 30)
    except torch.OutOfMemoryError as error:
        assert "CUDA out of memory. Tried to allocate 2.00 GiB" in str(error), error
    assert seen == [(0, 2 << 30, 1 << 30, torch.cuda.mem_get_info()[0])], seen
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == 0.25
    try:
        bytes_on(300 * MIB)
        raise AssertionError("beyond the fraction")
    except torch.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert bytes_on(300 * MIB) is not None


def snapshots():
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    block = bytes_on(MIB)
    bytes_on(2 * MIB)
    address = block.data_ptr()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    blocks = [each for segment in snapshot["segments"] for each in segment["blocks"]]
    found = [each for each in blocks if each["address"] == address]
    assert [each["state"] for each in found] == ["active_allocated"], found
    assert any(frame["name"] == "bytes_on" for frame in found[0]["frames"]), found
    trace = snapshot["device_traces"][0]
    assert [entry["action"] for entry in trace][:4] == [
        "alloc", "alloc", "free_requested", "free_completed"
    ], trace  # fmt: skip
    assert (trace[0]["addr"], trace[0]["size"]) == (address, MIB)
    assert trace[0]["time_us"] > 0
    for segment in snapshot["segments"]:
        assert sum(each["size"] for each in segment["blocks"]) == segment["total_size"]
    assert torch.cuda.memory_snapshot() != []


def pools():
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        inside = bytes_on(4 * MIB)
    outside = bytes_on(4 * MIB)
    assert pool.use_count() == 1
    segments = pool.snapshot()
    ranges = [(each["address"], each["address"] + each["total_size"]) for each in segments]
    held = [any(a <= x.data_ptr() < b for a, b in ranges) for x in (inside, outside)]
    assert held == [True, False], (held, segments)
    key = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.all.current"
    assert torch.cuda.memory_stats()[key] >= 4 * MIB
    del inside, outside
    before = torch.cuda.mem_get_info()[0]
    del pool
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] >= before + 4 * MIB
    graph = torch.cuda.CUDAGraph()
    shared = torch.cuda.MemPool()
    static = bytes_on(MIB)
    with torch.cuda.graph(graph, pool=shared.id):
        copy = torch.empty_like(static).copy_(static)
    assert shared.use_count() == 2
    graph.replay()
    del copy, graph


def checkpoints():
    """As torch._inductor.cudagraph_trees goes back to the state behind an earlier graph."""
    pool = torch.cuda.MemPool()
    stream = torch.cuda.Stream()

    def live():
        blocks = (block for segment in pool.snapshot() for block in segment["blocks"])
        return sum(block["size"] for block in blocks if block["state"] == "active_allocated")

    def record(make):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool.id, stream=stream):
            made = make()
        return graph, made

    first, (kept, dropped) = record(lambda: (bytes_on(3 * MIB), bytes_on(5 * MIB)))
    places = kept.data_ptr(), dropped.data_ptr()
    state = torch._C._cuda_getCheckpointState(0, pool.id)
    second, (other,) = record(lambda: (bytes_on(MIB),))
    del dropped
    third, (again,) = record(lambda: (bytes_on(2 * MIB),))
    # `other` and `again` are stale; a tensor takes the place of the dropped one.
    place = torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(
        {
            "nbytes": 5 * MIB,
            "data_ptr": places[1],
            "size": (5 * MIB,),
            "stride": (1,),
            "dtype": torch.uint8,
            "device": torch.device("cuda", 0),
            "storage_offset": 0,
        },
        torch._C._construct_storage_from_data_pointer(
            places[1], torch.device("cuda", 0), 5 * MIB
        ),
    )
    stale = [each.untyped_storage()._cdata for each in (other, again)]
    torch._C._cuda_setCheckpointPoolState(0, state, stale, [place.untyped_storage()._cdata])
    assert kept.data_ptr() == places[0] and place.data_ptr() == places[1]
    assert live() == 8 * MIB
    del other, again  # own nothing any more
    assert live() == 8 * MIB
    del place
    assert live() == 3 * MIB
    del kept
    assert live() == 0
    assert first and second and third


def unsupported():
    refused(lambda: torch.cuda.MemPool(use_on_oom=True), "MemPool(use_on_oom=True)")
    refused(lambda: torch.cuda.MemPool(no_split=True), "MemPool(no_split=True)")
    refused(lambda: berth.torch.Pool("weights"), "the allocator of all tensors")
    own = berth.torch._allocator_of_pools().allocator()
    refused(lambda: torch.cuda.MemPool(own), "a MemPool with an allocator of its own")
    for name in ("memory_allocated", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        refused(lambda: getattr(torch.cuda, name)(9), "Invalid device argument 9")
    refused(lambda: torch.cuda.get_per_process_memory_fraction(9), "Invalid device argument 9")
    refused(lambda: torch.cuda.memory.caching_allocator_enable(False), "caching_allocator_enable")
    refused(lambda: bytes_on(MIB).untyped_storage()._share_cuda_(), "another process opens")
    refused(lambda: berth.torch.enable(), "full=True")


def profiled():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        bytes_on(5 * MIB)
    sizes = {event.device_memory_usage for event in seen.events()}
    assert 5 * MIB in sizes, sizes


for case in (statistics, errors, snapshots, pools, checkpoints, unsupported, profiled):
    case()
    print(case.__name__)
