# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reports about its memory, turned into trace rows.

Pure functions over plain values: nothing here needs PyTorch or a GPU.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from rows import (
    BLOCK_ENDS,
    BLOCK_STARTS,
    NO_ID,
    SEGMENT_OPS,
    Row,
    TraceError,
    numbered_by_first_use,
)

ACTIVE_STATES = ("active_allocated", "active_awaiting_free", "active_pending_free")


class CpuEvent(NamedTuple):
    """One memory report of the CPU profiler; a change of 0 bytes marks an iteration."""

    time_ns: int
    address: int
    delta_bytes: int  # above 0: allocated; below: freed
    total_bytes: int  # live after this event, by the profiler's own count
    is_host_scalar: bool = False


def rows_from_cpu_events(events: Iterable[CpuEvent]) -> list[Row]:
    """Rows of a CPU recording; host scalars are left out with their frees."""
    timeline = sorted(events, key=lambda event: event.time_ns)
    _check_totals(timeline)
    numbers = itertools.count()
    # Address of each live block; None for a host scalar.
    live: dict[int, tuple[int, int] | None] = {}
    initial: list[Row] = []
    rows: list[Row] = []
    for event in timeline:
        time_us = (event.time_ns - timeline[0].time_ns) // 1000
        size_bytes = abs(event.delta_bytes)
        if event.delta_bytes == 0:
            rows.append(Row("snapshot", NO_ID, 0, 0, 0, time_us))
        elif event.delta_bytes > 0:
            if event.address in live:
                raise TraceError(f"a free was lost: {event} is already allocated")
            live[event.address] = None
            if not event.is_host_scalar:
                live[event.address] = (next(numbers), size_bytes)
                rows.append(Row("alloc", *live[event.address], 0, 0, time_us))
        else:
            if event.address not in live:
                live[event.address] = (next(numbers), size_bytes)
                initial.append(Row("init_alloc", *live[event.address], 0, 0, 0))
            block = live.pop(event.address)
            if block is not None:
                if block[1] != size_bytes:
                    raise TraceError(f"{event} frees a block of {block[1]} bytes")
                rows.append(Row("free", *block, 0, 0, time_us))
    return numbered_by_first_use(initial + rows)


def _check_totals(timeline: list[CpuEvent]) -> None:
    """The profiler counts live bytes itself: a lost event would break its count."""
    changes = [event for event in timeline if event.delta_bytes != 0]
    if not changes:
        raise TraceError("the profiler reported no memory events")
    total_bytes = changes[0].total_bytes - changes[0].delta_bytes
    for event in changes:
        total_bytes += event.delta_bytes
        if total_bytes != event.total_bytes:
            raise TraceError(f"events were lost before {event}: sum {total_bytes}")


def rows_from_snapshot(snapshot: dict[str, Any]) -> tuple[list[Row], Counter[str]]:
    """Rows of a CUDA memory snapshot, and how often each unused action occurred."""
    conversion = _SnapshotConversion()
    for time_us, device, event in _snapshot_timeline(snapshot["device_traces"]):
        conversion.add(event, device, time_us)
    conversion.add_live_before(snapshot["segments"])
    rows = conversion.initial + conversion.rows
    return numbered_by_first_use(rows), conversion.skipped_count_by_action


def _snapshot_timeline(
    device_traces: list[list[dict[str, Any]]],
) -> list[tuple[int, int, dict[str, Any]]]:
    """Events of all devices by time from 0, each device's own order kept."""
    timelines = []
    for device, trace in enumerate(device_traces):
        # Clocks of different threads may differ slightly; the order is right.
        times_us = itertools.accumulate((event["time_us"] for event in trace), max)
        timelines.append([(t, device, e) for t, e in zip(times_us, trace, strict=True)])
    merged = list(heapq.merge(*timelines, key=lambda entry: entry[:2]))
    return [(t - merged[0][0], device, event) for t, device, event in merged]


class _SnapshotConversion:
    """Rows so far, and the live block at each (device, address)."""

    def __init__(self) -> None:
        self.initial: list[Row] = []
        self.rows: list[Row] = []
        self.skipped_count_by_action: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._number_by_stream = {0: 0}
        self._blocks: dict[tuple[int, int], Row] = {}
        self._segments: dict[tuple[int, int], Row] = {}

    def add(self, event: dict[str, Any], device: int, time_us: int) -> None:
        action = event["action"]
        if action == "snapshot":
            self.rows.append(Row(action, NO_ID, 0, 0, device, time_us))
        elif action == "oom":
            stream = self._stream(event["stream"])
            self.rows.append(Row(action, NO_ID, event["size"], stream, device, time_us))
        elif action in BLOCK_STARTS or action in BLOCK_ENDS:
            self._add_block_event(event, device, time_us)
        elif action in SEGMENT_OPS:
            self._add_segment_event(event, device, time_us)
        else:
            self.skipped_count_by_action[action] += 1

    def _add_block_event(self, event: dict[str, Any], device: int, time_us: int) -> None:
        key = (device, event["addr"])
        if event["action"] == "alloc":
            if key in self._blocks:
                raise TraceError(f"a free was lost: {event} is already allocated")
            self._blocks[key] = self._row("alloc", event, device)
        elif key not in self._blocks:
            self._blocks[key] = self._row("init_alloc", event, device)
            self.initial.append(self._blocks[key])
        block = self._blocks[key]
        self.rows.append(block._replace(op=event["action"], time_us=time_us))
        if event["action"] == "free_completed":
            del self._blocks[key]

    def _add_segment_event(self, event: dict[str, Any], device: int, time_us: int) -> None:
        key = (device, event["addr"])
        # An unmapped piece need not be one that was mapped: it has its own id.
        segment = self._row(event["action"], event, device)
        if event["action"] == "segment_alloc":
            self._segments[key] = segment
        elif event["action"] == "segment_free":
            if key not in self._segments:
                self.initial.append(segment._replace(op="init_segment"))
            number = self._segments.pop(key, segment).id
            segment = segment._replace(id=number)
        self.rows.append(segment._replace(time_us=time_us))

    def add_live_before(self, segments: list[dict[str, Any]]) -> None:
        """Blocks that are live at the end and were never allocated were live before."""
        for segment in segments:
            device, stream = segment.get("device", 0), segment["stream"]
            for block in segment["blocks"]:
                is_active = block["state"] in ACTIVE_STATES
                if is_active and (device, block["address"]) not in self._blocks:
                    described = {"size": block["requested_size"], "stream": stream}
                    self.initial.append(self._row("init_alloc", described, device))
            is_known = (device, segment["address"]) in self._segments
            if not is_known and not segment.get("is_expandable", False):
                described = {"size": segment["total_size"], "stream": stream}
                self.initial.append(self._row("init_segment", described, device))

    def _row(self, op: str, event: dict[str, Any], device: int) -> Row:
        stream = self._stream(event["stream"])
        return Row(op, next(self._numbers), event["size"], stream, device, 0)

    def _stream(self, stream: int) -> int:
        return self._number_by_stream.setdefault(stream, len(self._number_by_stream))
