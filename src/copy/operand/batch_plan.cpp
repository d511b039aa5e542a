// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/batch_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace berth {
namespace {

using Type = MemoryKind::Type;

/// Caches allocations, because a batch has many ranges in few allocations.
class Allocations {
 public:
  explicit Allocations(const FindAllocation& find) : find_(find) {}

  const AllocationInfo& of(const void* data, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    auto behind = known_.upper_bound(address);
    if (behind != known_.begin()) {
      const AllocationInfo& known = std::prev(behind)->second;
      if (address < known.end) return known;
    }
    const AllocationInfo found = find_(data, bytes);
    if (found.kind.is_pageable()) return pageable_;
    return known_.insert_or_assign(found.begin, found).first->second;
  }

 private:
  const FindAllocation& find_;
  std::map<std::uintptr_t, AllocationInfo> known_;
  const AllocationInfo pageable_{};
};

struct PlacedRange {
  CopyRange range;
  const AllocationInfo* to;
  const AllocationInfo* from;
};

RangesCopy::Adjoins adjoin(const PlacedRange& before, const PlacedRange& next) {
  const auto* const target = static_cast<const std::byte*>(before.range.target);
  const auto* const source = static_cast<const std::byte*>(before.range.source);
  return {.target = before.to == next.to && target + before.range.bytes == next.range.target,
          .source = before.from == next.from && source + before.range.bytes == next.range.source};
}

std::vector<PlacedRange> place(std::span<const CopyRange> ranges, Allocations& allocations) {
  std::vector<PlacedRange> placed;
  for (const CopyRange& range : ranges) {
    if (range.bytes == 0) continue;
    const PlacedRange next{range, &allocations.of(range.target, range.bytes),
                           &allocations.of(range.source, range.bytes)};
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

/// Whether the host should extract the range from a larger range of the device that also contains a
/// neighbor. Not in the other direction, because the host would read the source before pending work
/// of the stream has written it.
bool is_packed(std::span<const PlacedRange> all, std::size_t index, std::size_t bytes_max) {
  const PlacedRange& it = all[index];
  const bool to_host = it.to->kind.type == Type::pinned && it.from->kind.type == Type::device;
  if (!to_host || it.range.bytes > bytes_max) return false;
  return (index > 0 && adjoin(all[index - 1], it).source) ||
         (index + 1 < all.size() && adjoin(it, all[index + 1]).source);
}

/// Ranges that are copied together.
struct Group {
  PlannedCopy planned;
  PlacedRange last;
};

bool belongs(const Group& group, const PlacedRange& range, bool packed) {
  return group.planned.is_packed == packed && group.last.to->kind.matches(range.to->kind) &&
         group.last.from->kind.matches(range.from->kind);
}

}  // namespace

std::vector<PlannedCopy> plan_batch(std::span<const CopyRange> ranges, const CopierOptions& options,
                                    const FindAllocation& find) {
  Allocations allocations(find);
  const Batching batching{options.batched_range_bytes_min};
  const std::vector<PlacedRange> placed = place(ranges, allocations);
  std::vector<Group> groups;
  for (std::size_t index = 0; index < placed.size(); ++index) {
    const PlacedRange& next = placed[index];
    const bool packed = is_packed(placed, index, options.packed_range_bytes_max);
    auto group =
        std::ranges::find_if(groups, [&](const Group& it) { return belongs(it, next, packed); });
    RangesCopy::Adjoins adjoins{};
    if (group == groups.end()) {
      auto copy = std::make_unique<RangesCopy>(next.to->kind, next.from->kind, batching);
      groups.push_back({{std::move(copy), packed}, next});
      group = groups.end() - 1;
    } else {
      adjoins = adjoin(group->last, next);
    }
    group->planned.copy->add(next.range, adjoins);
    for (const PinnedBlock& block : {next.to->kind.pinned, next.from->kind.pinned}) {
      if (block.data != nullptr) group->planned.copy->add_block(block);
    }
    group->last = next;
  }
  std::vector<PlannedCopy> planned;
  for (Group& group : groups) planned.push_back(std::move(group.planned));
  return planned;
}

}  // namespace berth
