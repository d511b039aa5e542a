# SPDX-License-Identifier: Apache-2.0
"""Rows of an allocation trace: numbering, checking, describing and writing them.

Nothing here needs PyTorch.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

COLUMNS = "op,id,bytes,stream,device,t_us"
NO_ID = -1
BLOCK_STARTS = ("init_alloc", "alloc")
# `free` is a free that takes effect at once; the other two are its two halves
# where a block may have to wait for another stream before it can be used again.
BLOCK_ENDS = ("free", "free_requested", "free_completed")
SEGMENT_OPS = (
    "init_segment", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
)  # fmt: skip
MARKERS = ("oom", "snapshot")


class Row(NamedTuple):
    op: str
    id: int
    size_bytes: int
    stream: int
    device: int
    time_us: int


class TraceError(ValueError):
    """The recorded events cannot be a complete, consistent history."""


class Summary(NamedTuple):
    operation_count: int  # blocks started and ended, the rows a replay carries out
    iteration_count: int
    peak_live_bytes: int
    final_live_bytes: int


def numbered_by_first_use(rows: Iterable[Row]) -> list[Row]:
    """Replace provisional ids by 1, 2, ..., separately for blocks and segments."""
    block_ids: dict[int, int] = {}
    segment_ids: dict[int, int] = {}
    result = []
    for row in rows:
        if row.op not in MARKERS:
            ids = segment_ids if row.op in SEGMENT_OPS else block_ids
            row = row._replace(id=ids.setdefault(row.id, len(ids) + 1))
        result.append(row)
    return result


class _Ledger:
    """Which blocks are live after the rows seen so far."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._size_bytes_by_id: dict[int, int] = {}
        self._live_ids: set[int] = set()
        self._awaiting_ids: set[int] = set()

    def start(self, row: Row) -> None:
        if row.id in self._size_bytes_by_id:
            raise TraceError(f"id is allocated twice: {row}")
        if row.size_bytes <= 0:
            raise TraceError(f"size is not above 0: {row}")
        self._size_bytes_by_id[row.id] = row.size_bytes
        self._live_ids.add(row.id)
        self.live_bytes += row.size_bytes

    def end(self, row: Row) -> None:
        if row.id not in self._live_ids:
            raise TraceError(f"id is not live: {row}")
        if row.size_bytes != self._size_bytes_by_id[row.id]:
            raise TraceError(f"size differs from that of the allocation: {row}")
        if row.op != "free_requested":
            self._live_ids.remove(row.id)
            self.live_bytes -= row.size_bytes
        elif row.id in self._awaiting_ids:
            raise TraceError(f"free is asked for twice: {row}")
        else:
            self._awaiting_ids.add(row.id)


def summarize(rows: Iterable[Row]) -> Summary:
    """Check that the rows are a consistent sequence, and measure them."""
    ledger = _Ledger()
    operations = iterations = peak_bytes = last_us = 0
    for row in rows:
        if row.time_us < last_us:
            raise TraceError(f"time goes back from {last_us} us: {row}")
        last_us = row.time_us
        if row.op in BLOCK_STARTS:
            ledger.start(row)
            operations += 1
        elif row.op in BLOCK_ENDS:
            ledger.end(row)
            operations += 1
        elif row.op == "snapshot":
            iterations += 1
        elif row.op not in MARKERS and row.op not in SEGMENT_OPS:
            raise TraceError(f"unknown op: {row}")
        peak_bytes = max(peak_bytes, ledger.live_bytes)
    return Summary(operations, iterations, peak_bytes, ledger.live_bytes)


def split_at_markers(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The block rows that lead up to each `snapshot` row; later ones are left out."""
    iteration: list[Row] = []
    for row in rows:
        if row.op == "snapshot":
            yield iteration
            iteration = []
        elif row.op in BLOCK_STARTS or row.op in BLOCK_ENDS:
            iteration.append(row)


def longest_repeat(rows: Iterable[Row]) -> tuple[int, int]:
    """First and last (from 1) of the longest run of iterations that repeat exactly.

    Two iterations repeat when they ask for the same sizes in the same order and
    free the blocks that stand at the same places, be it in the same iteration or
    in one equally far back.
    """
    birth_by_id: dict[int, tuple[int, int]] = {}
    previous: object = None
    first = best_first = best_last = 0
    for index, iteration in enumerate(split_at_markers(rows), start=1):
        signature = []
        for position, row in enumerate(iteration):
            if row.op in BLOCK_STARTS:
                birth_by_id[row.id] = (index, position)
            born, place = birth_by_id[row.id]
            signature.append((row.op, row.size_bytes, row.stream, index - born, place))
        if signature != previous:
            first = index
        previous = signature
        if best_last == 0 or index - first > best_last - best_first:
            best_first, best_last = first, index
    return best_first, best_last


def write_trace(path: Path, header: dict[str, str], rows: Iterable[Row]) -> None:
    """Write header and rows; a name that ends in .gz compresses them."""
    lines = [f"# {key}: {value}" for key, value in header.items()]
    lines.append(COLUMNS)
    lines.extend(",".join(map(str, row)) for row in rows)
    content = ("\n".join(lines) + "\n").encode()
    if path.suffix == ".gz":
        # No time stamp, so that equal rows result in equal files.
        content = gzip.compress(content, compresslevel=9, mtime=0)
    path.write_bytes(content)
