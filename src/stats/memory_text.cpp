// SPDX-License-Identifier: Apache-2.0
#include "stats/memory_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"

#include "base/format.hpp"
#include "stats/text_format.hpp"

namespace berth {
namespace {

constexpr std::size_t kStreamsShownMax = 8;

template <class... Values>
void add(std::string& text, fmt::format_string<Values...> format, Values&&... values) {
  append_line(text, format_text(format, std::forward<Values>(values)...));
}

std::string format_gauge(std::string_view name, std::uint64_t value) {
  return name.starts_with("bytes_") ? format_bytes(value) : group_digits(value);
}

void append_overview(std::string& text, const MemorySnapshot& snapshot) {
  const MemoryCounters& counters = snapshot.counters;
  const std::uint64_t reserved = counters.bytes_reserved.current;
  const std::uint64_t active = counters.bytes_active.current;
  const std::uint64_t asleep = counters.bytes_asleep.current;
  const std::uint64_t cached = reserved + asleep - std::min(active, reserved + asleep);
  add(text, "  reserved  {}{} = {} active + {} cached", format_bytes(reserved),
      asleep > 0 ? format_text(" and {} asleep", format_bytes(asleep)) : "", format_bytes(active),
      format_bytes(cached));
  if (counters.bytes_unreturnable.current > 0)
    add(text, "  refused   {} of them, which the driver did not take back",
        format_bytes(counters.bytes_unreturnable.current));
  if (counters.blocks_free.current > 0)
    add(text, "  cached    {} in {} {}, the largest {}", format_bytes(cached),
        group_digits(counters.blocks_free.current),
        counters.blocks_free.current == 1 ? "hole" : "holes",
        format_bytes(snapshot.largest_free_block_bytes));
  const std::uint64_t requested_peak = counters.bytes_requested.peak;
  if (requested_peak > 0)
    add(text, "  waste     {:.1f} %: peak reserved {} / peak requested {} - 1",
        100 * (static_cast<double>(counters.bytes_reserved.peak) /
                   static_cast<double>(requested_peak) -
               1),
        format_bytes(counters.bytes_reserved.peak), format_bytes(requested_peak));
}

void append_gauges(std::string& text, const MemoryCounters& counters) {
  add(text, "  {:<18}  {:>11}  {:>11}", "", "current", "peak");
#define BERTH_ADD_GAUGE(name, help)                                                        \
  add(text, "  {:<18}  {:>11}  {:>11}", #name, format_gauge(#name, counters.name.current), \
      format_gauge(#name, counters.name.peak));
  BERTH_MEMORY_GAUGES(BERTH_ADD_GAUGE)
#undef BERTH_ADD_GAUGE
}

struct Total {
  std::string_view name;
  std::string_view help;
  std::string count;
};

void append_totals(std::string& text, const MemoryCounters& counters) {
  std::vector<Total> totals;
#define BERTH_ADD_TOTAL(name, help) \
  if (counters.name != 0) totals.push_back({#name, help, group_digits(counters.name)});
  BERTH_MEMORY_TOTALS(BERTH_ADD_TOTAL)
#undef BERTH_ADD_TOTAL
  if (totals.empty()) return;
  std::size_t name_width = 0;
  std::size_t count_width = 0;
  for (const Total& total : totals) {
    name_width = std::max(name_width, total.name.size());
    count_width = std::max(count_width, total.count.size());
  }
  text += '\n';
  for (const Total& total : totals)
    append_wrapped(
        text, format_text("  {:<{}}  {:>{}}  ", total.name, name_width, total.count, count_width),
        total.help);
}

struct StreamBytes {
  std::uint64_t allocated = 0;
  std::uint64_t pending = 0;
  std::uint64_t free = 0;
};

std::string name_of(std::optional<CUstream_st*> stream) {
  if (!stream) return "any";
  return *stream == nullptr ? "default" : format_text("{}", static_cast<void*>(*stream));
}

/// Cached memory belongs to the stream that freed it: if several streams have some, a request may
/// miss although enough is cached.
void append_streams(std::string& text, const MemorySnapshot& snapshot) {
  std::map<std::optional<CUstream_st*>, StreamBytes> bytes_by_stream;
  for (const SegmentInfo& segment : snapshot.segments)
    for (const BlockInfo& block : segment.blocks) {
      StreamBytes& bytes = bytes_by_stream[block.stream];
      (block.state == BlockState::allocated ? bytes.allocated
       : block.state == BlockState::pending ? bytes.pending
                                            : bytes.free) += block.bytes;
    }
  if (bytes_by_stream.size() < 2) return;
  std::multimap<std::uint64_t, const decltype(bytes_by_stream)::value_type*, std::greater<>>
      most_cached_first;
  for (const auto& entry : bytes_by_stream) most_cached_first.emplace(entry.second.free, &entry);
  text += '\n';
  add(text, "  {:<16}  {:>11}  {:>11}  {:>11}", "stream", "cached", "allocated", "pending");
  std::size_t shown = 0;
  for (const auto& [cached, entry] : most_cached_first) {
    if (shown == kStreamsShownMax) break;
    ++shown;
    const auto& [stream, bytes] = *entry;
    add(text, "  {:<16}  {:>11}  {:>11}  {:>11}", name_of(stream), format_bytes(bytes.free),
        format_bytes(bytes.allocated), format_bytes(bytes.pending));
  }
  if (most_cached_first.size() > shown)
    add(text, "  and {} more streams with less cached", most_cached_first.size() - shown);
}

bool is_untouched(const MemoryCounters& counters) {
  bool result = true;
#define BERTH_LOOK_AT_GAUGE(name, help) result = result && counters.name.peak == 0;
  BERTH_MEMORY_GAUGES(BERTH_LOOK_AT_GAUGE)
#undef BERTH_LOOK_AT_GAUGE
#define BERTH_LOOK_AT_TOTAL(name, help) result = result && counters.name == 0;
  BERTH_MEMORY_TOTALS(BERTH_LOOK_AT_TOTAL)
#undef BERTH_LOOK_AT_TOTAL
  return result;
}

}  // namespace

void append_memory_text(std::string& text, const MemorySnapshot& snapshot) {
  append_line(text, snapshot.allocator);
  if (is_untouched(snapshot.counters)) {
    append_line(text, "  no allocations");
    return;
  }
  append_overview(text, snapshot);
  text += '\n';
  append_gauges(text, snapshot.counters);
  append_totals(text, snapshot.counters);
  append_streams(text, snapshot);
}

}  // namespace berth
