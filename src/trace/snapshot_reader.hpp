// SPDX-License-Identifier: Apache-2.0
// A PyTorch memory snapshot from plain data: the fields that berth uses, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "berth/trace.hpp"

#include "trace/plain_data.hpp"

namespace berth {

struct SnapshotEvent {
  TraceOp op;            ///< the recorded action
  std::int32_t device;   ///< index of its list in device_traces
  std::size_t index;     ///< in that list
  std::int64_t address;  ///< 0 if the action has none
  std::uint64_t bytes;
  std::int64_t stream;  ///< the handle, as a number; 0 is the default stream
  std::uint64_t time_us;
};

/// "device_traces[0][17]"
std::string describe_place(const SnapshotEvent& event);

struct SnapshotBlock {
  std::int64_t address;
  std::uint64_t bytes;  ///< as requested
};

/// A segment at the moment of the snapshot, after all events.
struct SnapshotSegment {
  std::int32_t device;
  std::int64_t address;
  std::uint64_t bytes;
  std::int64_t stream;
  bool is_expandable;
  std::vector<SnapshotBlock> active_blocks;  ///< allocated, or freed and awaiting an event
};

struct MemoryTimeline {
  std::vector<SnapshotEvent> events;  ///< of all devices by time, each device's own order kept
  std::vector<SnapshotSegment> segments;
  std::map<std::string, std::size_t> skipped_actions;  ///< unknown actions, with their number
  std::string allocator_settings;  ///< PYTORCH_CUDA_ALLOC_CONF or similar; empty if unknown
};

/// `host_bytes_max` limits `data`, the timeline, and the resulting trace.
/// Errors  InvalidArgument that names `name`, the place in the snapshot, and the accepted values.
MemoryTimeline read_snapshot(const std::string& name, const PlainData& data, PlainValue root,
                             std::uint64_t host_bytes_max = kTraceHostBytesMax);

}  // namespace berth
