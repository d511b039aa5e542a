// SPDX-License-Identifier: Apache-2.0
#include "trace/snapshot_reader.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "trace/host_limit.hpp"
#include "trace/trace_error.hpp"
#include "trace/trace_op.hpp"

namespace berth {
namespace {

constexpr const char* kAcceptedSnapshot =
    "accepted: what torch.cuda.memory._dump_snapshot() writes, or the same as JSON";
constexpr std::size_t kDevicesMax = 1024;
/// A dictionary with this many keys and values costs as much as the place that refers to it.
constexpr std::size_t kSmallDictItems = 64;

// Upper bounds of the host memory that one of each takes here and in the resulting trace, while
// arrays double and tables grow. An event: two in timelines, its block with two events, its
// segment, three times a row of the trace, the table of the check.
constexpr std::uint64_t kEventBytes = 768;
constexpr std::uint64_t kSegmentBytes = 512;
constexpr std::uint64_t kBlockBytes = 192;
constexpr std::uint64_t kActionBytes = 128;  ///< plus its text, which is copied twice

/// The actions that PyTorch records. The others of TraceOp are berth's own.
bool is_action(TraceOp op) {
  return op != TraceOp::init_alloc && op != TraceOp::init_segment && op != TraceOp::reserved_total;
}

bool is_marker(TraceOp op) {
  return op == TraceOp::out_of_memory || op == TraceOp::snapshot;
}

class SnapshotReader {
 public:
  SnapshotReader(const std::string& name, const PlainData& data, std::uint64_t host_bytes_max)
      : name_(name), data_(data), host_bytes_max_(host_bytes_max), host_bytes_(data.bytes_held()) {}

  MemoryTimeline read(PlainValue root) {
    if (!root.is(PlainKind::dict))
      reject(format_text("{} instead of a memory snapshot", describe(root.kind())));
    read_events(root);
    read_segments(root);
    read_settings(root);
    return std::move(timeline_);
  }

 private:
  [[noreturn]] void reject(std::string_view problem) const {
    reject_trace(name_, format_text("{}; {}", problem, kAcceptedSnapshot));
  }

  [[noreturn]] void reject_field(const std::string& place, std::string_view key,
                                 const PlainValue* value, std::string_view needed) const {
    reject(format_text("{}: {} is {} instead of {}", place, quoted(key),
                       value == nullptr ? "missing" : describe(value->kind()), needed));
  }

  /// Lists may be shared inside a snapshot. A malicious one that is walked again and again would
  /// take forever, so all walks together are bounded by the size that the file can have without
  /// sharing.
  std::span<const PlainValue> walk(PlainValue list) {
    const auto items = data_.items(list);
    count_walk(items.size());
    return items;
  }

  /// A dictionary is searched once for each place that refers to it, so a large shared one counts
  /// towards the same bound.
  void visit(PlainValue dict) {
    const std::size_t items = data_.items(dict).size();
    if (items > kSmallDictItems) count_walk(items);
  }

  void count_walk(std::size_t items) {
    walked_ += items;
    if (walked_ > data_.item_count()) reject("lists or dictionaries that stand in several places");
  }

  template <class Place>
  void charge(const Place& place, std::uint64_t bytes) {
    host_bytes_ += bytes;
    if (host_bytes_ > host_bytes_max_)
      reject_trace(name_, format_text("{}: {}", place(), describe_host_limit(host_bytes_max_)));
  }

  template <class Place>
  PlainValue list_field(const Place& place, PlainValue dict, std::string_view key) const {
    const PlainValue* const value = data_.find(dict, key);
    if (value == nullptr || !value->is(PlainKind::list))
      reject_field(place(), key, value, "a list");
    return *value;
  }

  template <class Place>
  std::int64_t integer_field(const Place& place, PlainValue dict, std::string_view key) const {
    const PlainValue* const value = data_.find(dict, key);
    if (value == nullptr || !value->is(PlainKind::integer))
      reject_field(place(), key, value, "an integer");
    return value->as_integer();
  }

  template <class Place>
  std::uint64_t size_field(const Place& place, PlainValue dict, std::string_view key) const {
    const std::int64_t value = integer_field(place, dict, key);
    if (value < 0) reject(format_text("{}: {} is {}, below 0", place(), quoted(key), value));
    return static_cast<std::uint64_t>(value);
  }

  template <class Place>
  std::string_view text_field(const Place& place, PlainValue dict, std::string_view key) const {
    const PlainValue* const value = data_.find(dict, key);
    if (value == nullptr || !value->is(PlainKind::text))
      reject_field(place(), key, value, "a text");
    return value->as_text();
  }

  void read_events(PlainValue root) {
    const auto place = [] { return std::string("the snapshot"); };
    const auto devices = walk(list_field(place, root, "device_traces"));
    if (devices.size() > kDevicesMax)
      reject(format_text("device_traces of {} devices, more than {}", devices.size(), kDevicesMax));
    for (std::size_t device = 0; device < devices.size(); ++device) {
      if (!devices[device].is(PlainKind::list))
        reject(format_text("device_traces[{}] is {} instead of a list", device,
                           describe(devices[device].kind())));
      read_device_events(static_cast<std::int32_t>(device), walk(devices[device]));
    }
    // Makes the times of each device increase, so that its own order is kept.
    std::ranges::sort(timeline_.events, {}, [](const SnapshotEvent& event) {
      return std::tuple(event.time_us, event.device, event.index);
    });
  }

  void read_device_events(std::int32_t device, std::span<const PlainValue> items) {
    std::uint64_t latest_us = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      SnapshotEvent event{};
      event.device = device;
      event.index = i;
      const auto place = [&event] { return describe_place(event); };
      if (!items[i].is(PlainKind::dict))
        reject(format_text("{} is {} instead of a dictionary", place(), describe(items[i].kind())));
      visit(items[i]);
      const std::string_view action = text_field(place, items[i], "action");
      const auto op = parse_trace_op(action);
      if (!op || !is_action(*op)) {
        if (++timeline_.skipped_actions[std::string(action)] == 1)
          charge(place, kActionBytes + 2 * action.size());
        continue;
      }
      charge(place, kEventBytes);
      event.op = *op;
      if (!is_marker(*op)) event.address = integer_field(place, items[i], "addr");
      if (*op != TraceOp::snapshot) event.bytes = size_field(place, items[i], "size");
      if (data_.find(items[i], "stream") != nullptr)
        event.stream = integer_field(place, items[i], "stream");
      // Clocks of different threads may differ slightly; the order of events is right.
      if (data_.find(items[i], "time_us") != nullptr)
        latest_us = std::max(latest_us, size_field(place, items[i], "time_us"));
      event.time_us = latest_us;
      timeline_.events.push_back(event);
    }
  }

  void read_segments(PlainValue root) {
    if (data_.find(root, "segments") == nullptr) return;
    const auto place = [] { return std::string("the snapshot"); };
    const auto items = walk(list_field(place, root, "segments"));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto segment_place = [i] { return format_text("segments[{}]", i); };
      if (!items[i].is(PlainKind::dict))
        reject(format_text("{} is {} instead of a dictionary", segment_place(),
                           describe(items[i].kind())));
      timeline_.segments.push_back(read_segment(segment_place, items[i]));
    }
  }

  template <class Place>
  SnapshotSegment read_segment(const Place& place, PlainValue dict) {
    SnapshotSegment segment{};
    visit(dict);
    charge(place, kSegmentBytes);
    if (data_.find(dict, "device") != nullptr) {
      const std::int64_t device = integer_field(place, dict, "device");
      if (device < 0 || device > std::int64_t{kDevicesMax})
        reject(format_text("{}: \"device\" is {}, no ordinal from 0 to {}", place(), device,
                           kDevicesMax));
      segment.device = static_cast<std::int32_t>(device);
    }
    segment.address = integer_field(place, dict, "address");
    segment.bytes = size_field(place, dict, "total_size");
    if (data_.find(dict, "stream") != nullptr)
      segment.stream = integer_field(place, dict, "stream");
    const PlainValue* const is_expandable = data_.find(dict, "is_expandable");
    segment.is_expandable = is_expandable != nullptr && is_expandable->is(PlainKind::boolean) &&
                            is_expandable->as_boolean();
    read_blocks(place, walk(list_field(place, dict, "blocks")), segment);
    return segment;
  }

  template <class Place>
  void read_blocks(const Place& segment_place, std::span<const PlainValue> items,
                   SnapshotSegment& segment) {
    // Blocks tile their segment. Not every version of PyTorch writes their addresses.
    auto address = static_cast<std::uint64_t>(segment.address);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto place = [&segment_place, i] {
        return format_text("{}.blocks[{}]", segment_place(), i);
      };
      if (!items[i].is(PlainKind::dict))
        reject(format_text("{} is {} instead of a dictionary", place(), describe(items[i].kind())));
      visit(items[i]);
      const std::uint64_t bytes = size_field(place, items[i], "size");
      const std::string_view state = text_field(place, items[i], "state");
      if (state.starts_with("active")) {
        charge(place, kBlockBytes);
        const bool is_request_known = data_.find(items[i], "requested_size") != nullptr;
        segment.active_blocks.push_back(
            {static_cast<std::int64_t>(address),
             is_request_known ? size_field(place, items[i], "requested_size") : bytes});
      }
      address += bytes;
    }
  }

  void read_settings(PlainValue root) {
    const PlainValue* const settings = data_.find(root, "allocator_settings");
    if (settings == nullptr || !settings->is(PlainKind::dict)) return;
    for (const char* const key : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
      const PlainValue* const value = data_.find(*settings, key);
      if (value != nullptr && value->is(PlainKind::text))
        timeline_.allocator_settings = value->as_text();
    }
  }

  const std::string& name_;
  const PlainData& data_;
  const std::uint64_t host_bytes_max_;
  std::uint64_t host_bytes_;
  std::size_t walked_ = 0;
  MemoryTimeline timeline_;
};

}  // namespace

std::string describe_place(const SnapshotEvent& event) {
  return format_text("device_traces[{}][{}]", event.device, event.index);
}

MemoryTimeline read_snapshot(const std::string& name, const PlainData& data, PlainValue root,
                             std::uint64_t host_bytes_max) {
  return SnapshotReader(name, data, host_bytes_max).read(root);
}

}  // namespace berth
