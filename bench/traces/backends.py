# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a PyTorch backend and returns the rows of its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from convert import CpuEvent, rows_from_cpu_events, rows_from_snapshot
from programs import Program
from rows import Row

MARK_NAME = "berth.iteration"
# complex128, the widest number that an expression can hold
MAX_SCALAR_BYTES = 16
CAST_CHAIN = ["aten::empty_strided", "aten::_to_copy", "aten::to"]
ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge",
}  # fmt: skip


def record_on_cpu(program: Program) -> tuple[list[Row], dict[str, str]]:
    """Rows from the profiler's memory events, and header lines about them."""

    def mark() -> None:
        with torch.profiler.record_function(MARK_NAME):
            pass

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        experimental_config=torch._C._profiler._ExperimentalConfig(capture_overload_names=True),
    ) as profiler:
        # Held until the end, so that weights are not freed inside the recording.
        live_state = program.run(torch.device("cpu"), mark)
    results = profiler.profiler.kineto_results
    events = list(_cpu_events(results.experimental_event_tree()))
    del live_state
    scalar_count = sum(event.is_host_scalar for event in events)
    capability = torch.backends.cpu.get_cpu_capability()
    return rows_from_cpu_events(events), {
        "device": "CPU (PyTorch CPU backend, one thread, kernels for "
        f"{capability}): sizes as the CUDA caching allocator would be asked for the "
        "tensors; what a GPU run adds (cuDNN and cuBLAS workspaces) is absent, and "
        "oneDNN's scratch is present",
        "format": "torch.profiler memory events; bytes = requested sizes",
        "conversion": f"{scalar_count} scalars of expressions left out, "
        "because a GPU run keeps them on the host",
    }


def _cpu_events(tree: list[Any]) -> Iterator[CpuEvent]:
    allocation = torch._C._profiler._EventType.Allocation
    pending = list(tree)
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        if event.tag == allocation:
            fields = event.extra_fields
            yield CpuEvent(
                event.start_time_ns,
                fields.ptr,
                fields.alloc_size,
                fields.total_allocated,
                0 < fields.alloc_size <= MAX_SCALAR_BYTES and _is_host_scalar(event),
            )
        elif event.name == MARK_NAME:
            yield CpuEvent(event.start_time_ns, 0, 0, 0)


def _is_host_scalar(allocation: Any) -> bool:
    """Whether a small block is a number of an expression, as the 2 in `x * 2`.

    PyTorch puts such a number into a tensor on the host on every backend. It does
    so before any operator runs, or in the variant of the operator that takes a
    number, and the CPU backend then converts it to the type of the other operand.
    """
    operators = []
    operator = allocation.parent
    while operator is not None and len(operators) < 4:
        operators.append(operator)
        operator = operator.parent
    if not operators or operators[0].overload_name == "Scalar":
        return True
    if len(operators) < 4 or [op.name for op in operators[:3]] != CAST_CHAIN:
        return False
    return operators[3].name.removeprefix("aten::").removesuffix("_") in ELEMENTWISE


def record_on_cuda(program: Program) -> tuple[list[Row], dict[str, str]]:
    """Rows from the caching allocator's own history, and header lines about them."""
    torch.cuda.init()
    reserved_at_start_bytes = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    # The allocator records each snapshot in its history, which marks an iteration.
    torch.cuda.memory._record_memory_history(enabled="all", context=None)
    try:
        live_state = program.run(torch.device("cuda", 0), torch.cuda.memory._snapshot)
        torch.cuda.synchronize()
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    reported = (
        f"start_reserved={reserved_at_start_bytes} "
        f"peak_reserved={torch.cuda.max_memory_reserved()} "
        f"final_reserved={torch.cuda.memory_reserved()}"
    )
    del live_state
    rows, skipped_count_by_action = rows_from_snapshot(snapshot)
    return rows, {
        "device": torch.cuda.get_device_name(0),
        "format": "torch.cuda.memory snapshot (device_traces); bytes = requested sizes",
        "reported_dev0": reported,
        "conversion": f"actions without a row: {dict(skipped_count_by_action) or 'none'}",
    }
