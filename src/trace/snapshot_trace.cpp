// SPDX-License-Identifier: Apache-2.0
#include "trace/snapshot_trace.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/secret_hash.hpp"
#include "trace/snapshot_reader.hpp"
#include "trace/trace_check.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

struct LiveBlock {
  TraceEvent allocation;
  std::optional<SnapshotEvent> allocated;       ///< nullopt: before the recording
  std::optional<SnapshotEvent> free_requested;  ///< its event
};

/// The known state of one device, by address.
struct DeviceState {
  std::unordered_map<std::int64_t, LiveBlock, SecretHash> blocks;
  std::unordered_map<std::int64_t, std::int64_t, SecretHash> segment_ids;
  std::set<std::int64_t> live_segments;  ///< addresses
  std::uint64_t bytes_obtained = 0;      ///< from the driver, by events
  std::uint64_t bytes_returned = 0;
};

class SnapshotConversion {
 public:
  SnapshotConversion(const std::string& name, const MemoryTimeline& timeline)
      : name_(name), timeline_(timeline), first_us_(timeline.events.front().time_us) {}

  std::vector<TraceEvent> convert() {
    for (const SnapshotEvent& event : timeline_.events) add(event);
    add_live_at_end();
    add_reserved_totals();
    std::vector<TraceEvent> events = std::move(initial_blocks_);
    events.insert(events.end(), initial_segments_.begin(), initial_segments_.end());
    events.insert(events.end(), recorded_.begin(), recorded_.end());
    return events;
  }

 private:
  [[noreturn]] void reject(const SnapshotEvent& event, std::string_view problem) const {
    reject_trace(name_, format_text("{}: address {:#x} {}; accepted: every action since the "
                                    "recording began, in order",
                                    describe_place(event), event.address, problem));
  }

  void add(const SnapshotEvent& event) {
    DeviceState& device = devices_[event.device];
    switch (event.op) {
      case TraceOp::alloc:
        return add_alloc(device, event);
      case TraceOp::free:
      case TraceOp::free_requested:
      case TraceOp::free_completed:
        return add_free(device, event);
      case TraceOp::segment_alloc:
      case TraceOp::segment_free:
      case TraceOp::segment_map:
      case TraceOp::segment_unmap:
        return add_segment_event(device, event);
      default:
        recorded_.push_back(make_event(event.op, event, kNoId));
    }
  }

  void add_alloc(DeviceState& device, const SnapshotEvent& event) {
    const TraceEvent allocation = make_event(TraceOp::alloc, event, ++blocks_);
    const auto [entry, is_new] =
        device.blocks.try_emplace(event.address, LiveBlock{allocation, event, std::nullopt});
    if (!is_new)
      reject(event, format_text("is allocated, but is so since {}", since(entry->second)));
    recorded_.push_back(allocation);
  }

  void add_free(DeviceState& device, const SnapshotEvent& event) {
    auto entry = device.blocks.find(event.address);
    if (entry == device.blocks.end()) {
      const TraceEvent allocation =
          make_initial(TraceOp::init_alloc, event.device, event.stream, ++blocks_, event.bytes);
      initial_blocks_.push_back(allocation);
      entry = device.blocks.try_emplace(event.address, LiveBlock{allocation, {}, {}}).first;
    }
    LiveBlock& block = entry->second;
    if (block.allocation.bytes != event.bytes)
      reject(event, format_text("is freed with {} bytes, but has {} since {}", event.bytes,
                                block.allocation.bytes, since(block)));
    const bool is_completion = event.op == TraceOp::free_completed;
    if (block.free_requested && !is_completion)
      reject(event, format_text("is freed, but its free was requested in {}",
                                describe_place(*block.free_requested)));

    // A free whose request was not recorded is treated as a free in one step.
    const TraceOp op = is_completion && !block.free_requested ? TraceOp::free : event.op;
    TraceEvent freed = block.allocation;
    freed.op = op;
    freed.time_us = event.time_us - first_us_;
    recorded_.push_back(freed);
    if (op == TraceOp::free_requested)
      block.free_requested = event;
    else
      device.blocks.erase(entry);
  }

  void add_segment_event(DeviceState& device, const SnapshotEvent& event) {
    const bool obtains = event.op == TraceOp::segment_alloc || event.op == TraceOp::segment_map;
    std::uint64_t& bytes = obtains ? device.bytes_obtained : device.bytes_returned;
    if (__builtin_add_overflow(bytes, event.bytes, &bytes))
      reject(event, "brings the bytes of all segments to 2^64 or more");

    const std::int64_t id = segment_id(device, event.address);
    const bool was_live = !device.live_segments.insert(event.address).second;
    if (event.op == TraceOp::segment_free && !was_live)
      initial_segments_.push_back(
          make_initial(TraceOp::init_segment, event.device, event.stream, id, event.bytes));
    if (!obtains) device.live_segments.erase(event.address);
    recorded_.push_back(make_event(event.op, event, id));
  }

  /// Memory that exists at the end and was never obtained existed before.
  void add_live_at_end() {
    for (const SnapshotSegment& segment : timeline_.segments) {
      const auto entry = devices_.find(segment.device);
      if (entry == devices_.end()) continue;
      DeviceState& device = entry->second;
      for (const SnapshotBlock& block : segment.active_blocks) {
        if (device.blocks.contains(block.address)) continue;
        initial_blocks_.push_back(make_initial(TraceOp::init_alloc, segment.device, segment.stream,
                                               ++blocks_, block.bytes));
      }
      // A segment that grows is mapped in other pieces than it is listed.
      if (segment.is_expandable || device.live_segments.contains(segment.address)) continue;
      initial_segments_.push_back(make_initial(TraceOp::init_segment, segment.device,
                                               segment.stream, segment_id(device, segment.address),
                                               segment.bytes));
    }
  }

  /// The amount reserved when the recording began: the amount at the end, less the changes by
  /// events.
  void add_reserved_totals() {
    for (const auto& [ordinal, device] : devices_) {
      std::uint64_t bytes = device.bytes_returned;
      bool is_known = !timeline_.segments.empty();
      for (const SnapshotSegment& segment : timeline_.segments)
        if (segment.device == ordinal)
          is_known = is_known && !__builtin_add_overflow(bytes, segment.bytes, &bytes);
      is_known = is_known && bytes >= device.bytes_obtained;
      if (is_known)
        initial_segments_.push_back(make_initial(TraceOp::reserved_total, ordinal, 0, kNoId,
                                                 bytes - device.bytes_obtained));
    }
  }

  static std::string since(const LiveBlock& block) {
    return block.allocated ? describe_place(*block.allocated) : "before the recording";
  }

  std::int64_t segment_id(DeviceState& device, std::int64_t address) {
    const auto [entry, is_new] = device.segment_ids.try_emplace(address, segments_ + 1);
    if (is_new) ++segments_;
    return entry->second;
  }

  std::int32_t stream_number(std::int64_t handle) {
    const auto next = static_cast<std::int32_t>(stream_numbers_.size());
    return stream_numbers_.try_emplace(handle, next).first->second;
  }

  TraceEvent make_event(TraceOp op, const SnapshotEvent& event, std::int64_t id) {
    return {op, event.device, stream_number(event.stream),
            id, event.bytes,  event.time_us - first_us_};
  }

  TraceEvent make_initial(TraceOp op, std::int32_t device, std::int64_t stream, std::int64_t id,
                          std::uint64_t bytes) {
    return {op, device, stream_number(stream), id, bytes, 0};
  }

  static constexpr std::int64_t kNoId = -1;

  const std::string& name_;
  const MemoryTimeline& timeline_;
  const std::uint64_t first_us_;
  std::map<std::int32_t, DeviceState> devices_;  ///< those with events
  std::unordered_map<std::int64_t, std::int32_t, SecretHash> stream_numbers_{{0, 0}};
  std::int64_t blocks_ = 0;    ///< also the latest id
  std::int64_t segments_ = 0;  ///< likewise
  std::vector<TraceEvent> initial_blocks_;
  std::vector<TraceEvent> initial_segments_;
  std::vector<TraceEvent> recorded_;
};

std::vector<std::pair<std::string, std::string>> make_header(std::string_view encoding,
                                                             const MemoryTimeline& timeline) {
  std::vector<std::pair<std::string, std::string>> header;
  header.emplace_back("format", format_text("PyTorch memory snapshot ({})", encoding));
  if (!timeline.allocator_settings.empty())
    header.emplace_back("allocator_settings", timeline.allocator_settings);
  std::string skipped;
  for (const auto& [action, count] : timeline.skipped_actions)
    skipped += format_text("{}{} {}", skipped.empty() ? "" : ", ", berth::quoted(action), count);
  if (!skipped.empty()) header.emplace_back("skipped_actions", skipped);
  return header;
}

}  // namespace

Trace trace_from_snapshot(const std::string& name, std::string_view encoding, const PlainData& data,
                          PlainValue root, std::uint64_t host_bytes_max) {
  const MemoryTimeline timeline = read_snapshot(name, data, root, host_bytes_max);
  if (timeline.events.empty())
    reject_trace(name,
                 "no recorded events; accepted: a snapshot taken while "
                 "torch.cuda.memory._record_memory_history() was on");
  Trace trace{name, make_header(encoding, timeline), SnapshotConversion(name, timeline).convert()};
  TraceChecker checker("event");
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (const auto problem = checker.add(trace.events[i], i))
      reject_trace(name, format_text("event {}: {}", i, *problem));
  return trace;
}

}  // namespace berth
