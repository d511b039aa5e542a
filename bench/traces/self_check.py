# SPDX-License-Identifier: Apache-2.0
"""Checks of the conversions on hand-made events; needs neither PyTorch nor a GPU."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convert import CpuEvent, rows_from_cpu_events, rows_from_snapshot
from rows import COLUMNS, Row, TraceError, longest_repeat, summarize, write_trace

CPU_EVENTS = [
    CpuEvent(9_500, 0xA0, 64, 164),  # out of order, and an address used again
    CpuEvent(1_000, 0xA0, 100, 600),  # 500 bytes were live before
    CpuEvent(2_500, 0xB0, 4, 604, is_host_scalar=True),
    CpuEvent(3_999, 0xC0, -500, 104),
    CpuEvent(5_000, 0, 0, 0),
    CpuEvent(6_000, 0xB0, -4, 100),
    CpuEvent(7_000, 0xB0, 100, 200),  # where a scalar was
    CpuEvent(8_000, 0xA0, -100, 100),
]
CPU_LINES = """
init_alloc,1,500,0,0,0
alloc,2,100,0,0,0
free,1,500,0,0,2
snapshot,-1,0,0,0,4
alloc,3,100,0,0,6
free,2,100,0,0,7
alloc,4,64,0,0,8
"""

# Two devices; on device 0 the default stream and one more.
SNAPSHOT: dict[str, Any] = {
    "device_traces": [
        [
            {"action": "segment_alloc", "addr": 0x7000, "size": 256, "stream": 77, "time_us": 50},
            {"action": "segment_alloc", "addr": 0x1000, "size": 2048, "stream": 0, "time_us": 50},
            {"action": "alloc", "addr": 0x1000, "size": 700, "stream": 0, "time_us": 52},
            {"action": "alloc", "addr": 0x1400, "size": 300, "stream": 77, "time_us": 51},
            {"action": "free_requested", "addr": 0x1000, "size": 700, "stream": 0, "time_us": 60},
            {"action": "free_requested", "addr": 0x9000, "size": 90, "stream": 0, "time_us": 61},
            {"action": "free_completed", "addr": 0x9000, "size": 90, "stream": 0, "time_us": 61},
            {"action": "annotate", "addr": 0x1400, "size": 300, "stream": 77, "time_us": 62},
            {"action": "snapshot", "addr": 0, "size": 4096, "stream": 0, "time_us": 63},
            {"action": "free_completed", "addr": 0x1000, "size": 700, "stream": 0, "time_us": 64},
            {"action": "alloc", "addr": 0x1000, "size": 600, "stream": 0, "time_us": 65},
            {"action": "segment_free", "addr": 0x7000, "size": 256, "stream": 77, "time_us": 66},
            {"action": "segment_free", "addr": 0x9000, "size": 512, "stream": 0, "time_us": 66},
            {"action": "oom", "size": 9999, "stream": 77, "device_free": 5, "time_us": 67},
            {"action": "segment_map", "addr": 0x5000, "size": 64, "stream": 77, "time_us": 68},
            {"action": "segment_unmap", "addr": 0x5000, "size": 64, "stream": 77, "time_us": 69},
            {"action": "segment_unmap", "addr": 0x6000, "size": 32, "stream": 0, "time_us": 70},
        ],
        [{"action": "alloc", "addr": 0x1000, "size": 11, "stream": 0, "time_us": 55}],
    ],
    "segments": [
        {
            "device": 0, "address": 0x1000, "total_size": 2048, "stream": 0,
            "blocks": [
                {"address": 0x1000, "requested_size": 600, "state": "active_allocated"},
                {"address": 0x1400, "requested_size": 300, "state": "active_allocated"},
                {"address": 0x1600, "requested_size": 0, "state": "inactive"},
            ],
        },
        {
            "device": 0, "address": 0x8000, "total_size": 1024, "stream": 77,
            "blocks": [
                {"address": 0x8000, "requested_size": 60, "state": "active_awaiting_free"},
            ],
        },
        {
            "device": 1, "address": 0x1000, "total_size": 512, "stream": 0,
            "blocks": [
                {"address": 0x1000, "requested_size": 11, "state": "active_allocated"},
            ],
        },
    ],
}  # fmt: skip
SNAPSHOT_LINES = """
init_alloc,1,90,0,0,0
init_segment,1,512,0,0,0
init_alloc,2,60,1,0,0
init_segment,2,1024,1,0,0
init_segment,3,512,0,1,0
segment_alloc,4,256,1,0,0
segment_alloc,5,2048,0,0,0
alloc,3,700,0,0,2
alloc,4,300,1,0,2
alloc,5,11,0,1,5
free_requested,3,700,0,0,10
free_requested,1,90,0,0,11
free_completed,1,90,0,0,11
snapshot,-1,0,0,0,13
free_completed,3,700,0,0,14
alloc,6,600,0,0,15
segment_free,4,256,1,0,16
segment_free,1,512,0,0,16
oom,-1,9999,1,0,17
segment_map,6,64,1,0,18
segment_unmap,7,64,1,0,19
segment_unmap,8,32,0,0,20
"""


def lines_of(rows: list[Row]) -> str:
    return "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def expect_equal(found: object, wanted: object) -> None:
    if found != wanted:
        raise SystemExit(f"self-check failed: found {found}\nwanted {wanted}")


def expect_error(words: str, call: Callable[[Any], object], argument: object) -> None:
    try:
        result = call(argument)
    except TraceError as error:
        if words not in str(error):
            raise SystemExit(f"self-check failed: {words!r} not in: {error}") from error
    else:
        raise SystemExit(f"self-check failed: no error about {words!r}, got {result}")


def check_cpu_rows() -> None:
    expect_equal(lines_of(rows_from_cpu_events(CPU_EVENTS)), CPU_LINES)
    summary = summarize(rows_from_cpu_events(CPU_EVENTS))
    expect_equal(summary, (6, 1, 600, 164))


def check_cpu_errors() -> None:
    expect_error("no memory events", rows_from_cpu_events, [])
    for lost in (CPU_EVENTS[2], CPU_EVENTS[5], CPU_EVENTS[7]):
        kept = [event for event in CPU_EVENTS if event is not lost]
        expect_error("events were lost", rows_from_cpu_events, kept)
    twice = [CpuEvent(1, 0xA0, 8, 8), CpuEvent(2, 0xA0, 8, 16)]
    expect_error("a free was lost", rows_from_cpu_events, twice)
    uneven = [CpuEvent(1, 0xA0, 8, 8), CpuEvent(2, 0xA0, -4, 4)]
    expect_error("a block of 8 bytes", rows_from_cpu_events, uneven)


def check_snapshot_rows() -> None:
    rows, skipped_count_by_action = rows_from_snapshot(SNAPSHOT)
    expect_equal(lines_of(rows), SNAPSHOT_LINES)
    expect_equal(skipped_count_by_action, {"annotate": 1})
    # 90 and 60 from before, then 700, 300 and 11 at once
    expect_equal(summarize(rows), (10, 1, 1161, 971))


def check_snapshot_errors() -> None:
    alloc = SNAPSHOT["device_traces"][0][2]
    broken = {"device_traces": [[alloc, alloc]], "segments": []}
    expect_error("a free was lost", rows_from_snapshot, broken)


def check_row_errors() -> None:
    alloc = Row("alloc", 1, 8, 0, 0, 5)
    free = Row("free", 1, 8, 0, 0, 6)
    requested = free._replace(op="free_requested")
    broken = {
        "allocated twice": [alloc, free, alloc._replace(time_us=7)],
        "not above 0": [alloc._replace(size_bytes=0)],
        "is not live": [alloc, free, free],
        "size differs": [alloc, free._replace(size_bytes=9)],
        "time goes back": [alloc, free._replace(time_us=4)],
        "unknown op": [alloc._replace(op="malloc")],
        "asked for twice": [alloc, requested, requested],
    }
    for words, rows in broken.items():
        expect_error(words, summarize, rows)


def rows_of(short_text: str) -> list[Row]:
    """`a1` allocates block 1, `f1` frees it, `|` ends an iteration."""
    op_by_letter = {"a": "alloc", "f": "free", "|": "snapshot"}
    return [
        Row(op_by_letter[word[0]], int(word[1:] or -1), 8, 0, 0, 0) for word in short_text.split()
    ]


def check_longest_repeat() -> None:
    def iterations(sizes_bytes: list[int]) -> list[Row]:
        """Each iteration frees the block of the one before, as gradients are."""
        rows: list[Row] = []
        for index, size_bytes in enumerate(sizes_bytes):
            rows.append(Row("alloc", index, size_bytes, 0, 0, index))
            if index:
                freed_bytes = sizes_bytes[index - 1]
                rows.append(Row("free", index - 1, freed_bytes, 0, 0, index))
            rows.append(Row("snapshot", -1, 0, 0, 0, index))
        return rows

    expect_equal(longest_repeat(iterations([8, 8, 8, 8])), (2, 4))
    # The third iteration frees a smaller block, so it differs from the fourth.
    expect_equal(longest_repeat(iterations([4, 4, 8, 8, 8])), (4, 5))
    expect_equal(longest_repeat(iterations([1, 2, 3])), (1, 1))
    # Equal sizes, but the second iteration frees its newer block, not its older.
    expect_equal(longest_repeat(rows_of("a1 a2 f1 | a3 a4 f4 |")), (1, 1))
    # The last three free the first block of an iteration 1, 3 and 2 before.
    expect_equal(longest_repeat(rows_of("a1 | a2 | a3 f2 | a4 f1 | a5 f3 |")), (1, 2))


def check_files() -> None:
    wanted = f"# program: p\n{COLUMNS}\nalloc,1,8,0,0,5\n"
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "t.csv", Path(folder) / "t.csv.gz"
        for path in (plain, packed):
            write_trace(path, {"program": "p"}, [Row("alloc", 1, 8, 0, 0, 5)])
        expect_equal(plain.read_text(), wanted)
        expect_equal(gzip.decompress(packed.read_bytes()).decode(), wanted)
        first_bytes = packed.read_bytes()
        expect_equal(first_bytes[4:8], bytes(4))  # no time stamp


def run_all() -> int:
    checks = (
        check_cpu_rows, check_cpu_errors, check_snapshot_rows, check_snapshot_errors,
        check_row_errors, check_longest_repeat, check_files,
    )  # fmt: skip
    for check in checks:
        check()
    return len(checks)
