# SPDX-License-Identifier: Apache-2.0
"""Prints snapshot_samples.hpp: one small memory snapshot, as Python writes it in every protocol.

Run it after changing SNAPSHOT, and put its output into the header beside it.
"""

import json
import pickle

KIB = 1024
MIB = 1024 * KIB


def event(action, addr, size, stream, time_us):
    key = "device_free" if action == "oom" else "addr"
    return {
        "action": action,
        key: addr,
        "size": size,
        "stream": stream,
        "time_us": time_us,
        "frames": FRAMES,
    }


def block(size, requested_size, state):
    return {
        "size": size,
        "requested_size": requested_size,
        "state": state,
        "frames": FRAMES,
    }


def segment(device, address, stream, blocks, is_expandable=False):
    return {
        "device": device,
        "address": address,
        "total_size": sum(b["size"] for b in blocks),
        "stream": stream,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": is_expandable,
        "frames": FRAMES,
        "blocks": blocks,
    }


# One list for all, as a snapshot shares the stacks of equal events.
FRAMES = [{"filename": "caf\u00e9\\train.py", "line": 17, "name": "step"}]
BASE = 0x7F0000000000
START_US = 1_700_000_000_000_000

SNAPSHOT = {
    "segments": [
        segment(0, BASE, 0, [
            block(512, 300, "active_allocated"),
            block(512, 512, "active_allocated"),
            block(512, 500, "active_pending_free"),
            block(2 * MIB - 1536, 0, "inactive"),
        ]),
        segment(0, BASE + 64 * MIB, 0, [block(2 * MIB, 0, "inactive")]),
        segment(1, BASE + 128 * MIB, 9, [
            block(4096, 4000, "active_allocated"),
            block(6 * MIB - 4096, 0, "inactive"),
        ], is_expandable=True),
        segment(2, BASE + 256 * MIB, 0, [block(2 * MIB, 5, "active_allocated")]),
    ],
    "device_traces": [
        [
            event("free_completed", BASE + 64 * MIB, 700, 0, START_US + 1),
            event("segment_alloc", BASE, 2 * MIB, 0, START_US + 10),
            event("alloc", BASE, 1000, 0, START_US + 11),
            event("alloc", BASE + 1024, 500, 77, START_US + 12),
            event("free_requested", BASE, 1000, 0, START_US + 13),
            event("free_completed", BASE, 1000, 0, START_US + 13),
            event("alloc", BASE, 300, 0, START_US + 15),
            event("free_requested", BASE + 1024, 500, 77, START_US + 14),
            event("free_requested", BASE + 64 * MIB + 512, 64, 77, START_US + 16),
            event("oom", 12345, 1 << 40, 77, START_US + 17),
            event("snapshot", 0, 0, 0, START_US + 18),
            {"action": "annotate", "note": 1.5, "is_set": True, "is_unset": False,
             "nothing": None, "wide": 1 << 70, "low": -(1 << 40)},
            event("segment_free", BASE + 192 * MIB, 20 * MIB, 77, START_US + 20),
        ],
        [
            event("segment_map", BASE + 128 * MIB, 2 * MIB, 9, START_US),
            event("alloc", BASE + 128 * MIB, 4000, 9, START_US + 13),
        ],
        [],
    ],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"},
}  # fmt: skip


def literal(content):
    """Content as C++ string literals, with every byte in octal that is not itself there."""
    lines = [""]
    for byte in content:
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        lines[-1] += chr(byte) if plain else f"\\{byte:03o}"
        if len(lines[-1]) > 88:
            lines.append("")
    return "\n".join(f'    "{line}"' for line in lines if line)


def constant(name, content):
    return f"inline constexpr std::string_view {name}(\n{literal(content)},\n    {len(content)});"


print("""// SPDX-License-Identifier: Apache-2.0
// Made by make_snapshot_samples.py, which says what is in them.
#pragma once

#include <array>
#include <string_view>

namespace berth::test {

// clang-format off""")
for protocol in range(6):
    print(constant(f"kSnapshotPickle{protocol}", pickle.dumps(SNAPSHOT, protocol)))
print(constant("kSnapshotJson", json.dumps(SNAPSHOT).encode()))
print("""// clang-format on

inline constexpr std::array kSnapshotPickles = {kSnapshotPickle0, kSnapshotPickle1,
                                                kSnapshotPickle2, kSnapshotPickle3,
                                                kSnapshotPickle4, kSnapshotPickle5};

}  // namespace berth::test""")
