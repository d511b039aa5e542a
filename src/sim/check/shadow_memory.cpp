// SPDX-License-Identifier: Apache-2.0
#include "sim/check/shadow_memory.hpp"

#include <algorithm>
#include <iterator>

namespace berth::sim {
namespace {

std::uint64_t place(const std::byte* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

}  // namespace

const Use* ShadowMemory::conflict(const Cell& cell, bool changes, const Clock& before,
                                  const Counts& counts) {
  const auto conflicts = [&](const Use& use) { return !before.includes(use.stamp) && counts(use); };
  if (cell.write && conflicts(*cell.write)) return &*cell.write;
  if (!changes) return nullptr;
  for (const Use& read : cell.reads)
    if (conflicts(read)) return &read;
  return nullptr;
}

// Source: CUDA Programming Guide, "Virtual Aliasing Support": writes through one mapping are
// incoherent with any other mapping until the writing operation completes, and so are all reads of
// a grid that was resident before.
const Use* ShadowMemory::aliased(const Cell& cell, const Use& use, const Arrival* arrival) {
  const auto is_own = [&](const Use& other) {
    return other.stamp.lane == use.stamp.lane && other.stamp.time == use.stamp.time;
  };
  const auto is_late = [&](Stamp stamp) {
    if (arrival == nullptr) return false;
    const bool is_since = stamp.lane == arrival->kernel.lane && stamp.time >= arrival->kernel.time;
    return is_since || !arrival->done.includes(stamp);
  };
  if (cell.write && cell.write->mapping != use.mapping &&
      (is_own(*cell.write) || is_late(cell.write->stamp)))
    return &*cell.write;
  if (!use.changes()) return nullptr;
  for (const Use& read : cell.reads)
    if (is_own(read) && read.mapping != use.mapping) return &read;
  return nullptr;
}

void ShadowMemory::split(std::uint64_t at) {
  const auto after = cells_.upper_bound(at);
  if (after == cells_.begin()) return;
  const auto cell = std::prev(after);
  if (cell->first == at || cell->second.end <= at) return;
  Cell upper = cell->second;
  cell->second.end = at;
  cells_.emplace_hint(after, at, std::move(upper));
}

std::optional<Conflict> ShadowMemory::enter(std::span<const std::byte> data, const Use& use,
                                            const Clock& before, const Arrival* arrival,
                                            const Counts& counts) {
  const std::uint64_t start = place(data.data());
  const std::uint64_t end = start + data.size();
  split(start);
  split(end);
  std::optional<Conflict> found;
  auto cell = cells_.lower_bound(start);
  for (std::uint64_t at = start; at != end; at = cell->second.end, ++cell) {
    const bool is_gap = cell == cells_.end() || cell->first != at;
    if (is_gap) {
      const std::uint64_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{gap_end, std::nullopt, {}});
    }
    if (const Use* earlier = conflict(cell->second, use.changes(), before, counts)) {
      if (!found) found = {Conflict::Kind::race, *earlier};
    } else if (const Use* other = aliased(cell->second, use, arrival)) {
      if (!found) found = {Conflict::Kind::aliasing, *other};
    }
    if (use.changes()) continue;
    std::erase_if(cell->second.reads, [&](const Use& read) { return before.includes(read.stamp); });
    cell->second.reads.push_back(use);
  }
  if (!use.changes()) return found;
  // Earlier uses are ordered before this write, or were just reported.
  const auto first = cells_.find(start);
  first->second = Cell{end, use, {}};
  cells_.erase(std::next(first), cells_.lower_bound(end));
  return found;
}

std::optional<Use> ShadowMemory::find_use_beyond(std::span<const std::byte> data,
                                                 std::uint64_t start, std::uint64_t bytes,
                                                 const Clock& before, const Counts& counts) const {
  const Counts through = [&](const Use& use) {
    const bool is_inside =
        use.address < start ? start - use.address < use.bytes : use.address - start < bytes;
    return is_inside && counts(use);
  };
  const std::uint64_t first = place(data.data());
  auto cell = cells_.upper_bound(first);
  if (cell != cells_.begin() && std::prev(cell)->second.end > first) --cell;
  for (; cell != cells_.end() && cell->first < first + data.size(); ++cell)
    if (const Use* use = conflict(cell->second, true, before, through)) return *use;
  return std::nullopt;
}

void ShadowMemory::forget(std::span<const std::byte> data) {
  const std::uint64_t start = place(data.data());
  const std::uint64_t end = start + data.size();
  split(start);
  split(end);
  cells_.erase(cells_.lower_bound(start), cells_.lower_bound(end));
}

// A mapping is identified by the distance from storage to address, which has changed.
void ShadowMemory::move(std::span<const std::byte> data, const std::byte* to) {
  const std::uint64_t start = place(data.data());
  const std::uint64_t end = start + data.size();
  const std::uint64_t distance = place(to) - start;
  split(start);
  split(end);
  for (auto cell = cells_.lower_bound(start); cell != cells_.end() && cell->first < end;) {
    Cell moved = std::move(cell->second);
    moved.end += distance;
    if (moved.write) moved.write->mapping -= distance;
    for (Use& read : moved.reads) read.mapping -= distance;
    cells_.insert_or_assign(cell->first + distance, std::move(moved));
    cell = cells_.erase(cell);
  }
}

}  // namespace berth::sim
