// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/batch_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace berth {
namespace {

using Type = MemoryKind::Type;

/// Remembers allocations: a batch has many ranges in few of them.
class Places {
 public:
  explicit Places(const FindPlace& find) : find_(find) {}

  const MemoryPlace& of(const void* data, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    auto behind = known_.upper_bound(address);
    if (behind != known_.begin()) {
      const MemoryPlace& known = std::prev(behind)->second;
      if (address < known.end) return known;
    }
    const MemoryPlace found = find_(data, bytes);
    if (found.kind.is_pageable()) return pageable_;
    return known_.insert_or_assign(found.begin, found).first->second;
  }

 private:
  const FindPlace& find_;
  std::map<std::uintptr_t, MemoryPlace> known_;
  const MemoryPlace pageable_{};
};

struct PlacedRange {
  CopyRange range;
  const MemoryPlace* to;
  const MemoryPlace* from;
};

RangesCopy::Adjoins adjoin(const PlacedRange& before, const PlacedRange& next) {
  const auto* const target = static_cast<const std::byte*>(before.range.target);
  const auto* const source = static_cast<const std::byte*>(before.range.source);
  return {.target = before.to == next.to && target + before.range.bytes == next.range.target,
          .source = before.from == next.from && source + before.range.bytes == next.range.source};
}

std::vector<PlacedRange> place(std::span<const CopyRange> ranges, Places& places) {
  std::vector<PlacedRange> placed;
  for (const CopyRange& range : ranges) {
    if (range.bytes == 0) continue;
    const PlacedRange next{range, &places.of(range.target, range.bytes),
                           &places.of(range.source, range.bytes)};
    require_within(*next.to, range.target, range.bytes, "a target of a batch");
    require_within(*next.from, range.source, range.bytes, "a source of a batch");
    const auto adjoins = placed.empty() ? RangesCopy::Adjoins{} : adjoin(placed.back(), next);
    if (adjoins.target && adjoins.source)
      placed.back().range.bytes += range.bytes;
    else
      placed.push_back(next);
  }
  return placed;
}

/// Whether the host should copy the range out of a larger range of the device, which it shares with
/// a neighbour. Not in the other direction: the host would read the source before pending work of
/// the stream has written it.
bool is_packed(std::span<const PlacedRange> all, std::size_t index, std::size_t bytes_max) {
  const PlacedRange& it = all[index];
  const bool to_host = it.to->kind.type == Type::pinned && it.from->kind.type == Type::device;
  if (!to_host || it.range.bytes > bytes_max) return false;
  return (index > 0 && adjoin(all[index - 1], it).source) ||
         (index + 1 < all.size() && adjoin(it, all[index + 1]).source);
}

/// The ranges that are copied one way.
struct Way {
  PlannedCopy planned;
  PlacedRange last;
};

bool goes(const Way& way, const PlacedRange& range, bool packed) {
  return way.planned.is_packed == packed && way.last.to->kind.is_like(range.to->kind) &&
         way.last.from->kind.is_like(range.from->kind);
}

}  // namespace

std::vector<PlannedCopy> plan_batch(std::span<const CopyRange> ranges, const CopierOptions& options,
                                    const FindPlace& find) {
  Places places(find);
  const std::vector<PlacedRange> placed = place(ranges, places);
  std::vector<Way> ways;
  for (std::size_t index = 0; index < placed.size(); ++index) {
    const PlacedRange& next = placed[index];
    const bool packed = is_packed(placed, index, options.packed_range_bytes_max);
    auto way = std::ranges::find_if(ways, [&](const Way& it) { return goes(it, next, packed); });
    RangesCopy::Adjoins adjoins{};
    if (way == ways.end()) {
      auto copy = std::make_unique<RangesCopy>(next.to->kind, next.from->kind,
                                               options.batch_calls ? Batches::yes : Batches::no);
      ways.push_back({{std::move(copy), packed}, next});
      way = ways.end() - 1;
    } else {
      adjoins = adjoin(way->last, next);
    }
    way->planned.copy->add(next.range, adjoins);
    for (const PinnedBlock& block : {next.to->kind.pinned, next.from->kind.pinned}) {
      if (block.data != nullptr) way->planned.copy->add_block(block);
    }
    way->last = next;
  }
  std::vector<PlannedCopy> planned;
  for (Way& way : ways) planned.push_back(std::move(way.planned));
  return planned;
}

}  // namespace berth
