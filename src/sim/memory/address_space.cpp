// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/address_space.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace berth::sim {
namespace {

/// Removes the entries of `map` with a byte in [start, start + bytes).
void erase_overlapping(std::map<std::uint64_t, Range>& map, std::uint64_t start,
                       std::uint64_t bytes) {
  auto found = map.lower_bound(start);
  if (found != map.begin() && std::prev(found)->second.end() > start) --found;
  while (found != map.end() && found->first < start + bytes) found = map.erase(found);
}

/// The entry of `map` that contains `address`, or end().
template <class Map>
auto containing(Map& map, std::uint64_t address) {
  auto found = map.upper_bound(address);
  if (found == map.begin()) return map.end();
  --found;
  return address - found->second.start < found->second.bytes ? found : map.end();
}

Span stream_ordered_span(const Range& range) {
  return {.kind = Span::Kind::device,
          .device = range.device,
          .closed = true,
          .readers = range.readers,
          .writers = range.writers};
}

}  // namespace

Range& AddressSpace::add(const Range& range) {
  BERTH_CHECK(!overlaps(range.start, range.bytes));
  erase_overlapping(freed_, range.start, range.bytes);
  Range& added = ranges_.emplace(range.start, range).first->second;
  added.id = next_id_++;
  return added;
}

void AddressSpace::remove(std::uint64_t start) {
  BERTH_CHECK(ranges_.erase(start) == 1);
}

void AddressSpace::remove_in_order(std::uint64_t start) {
  freed_.insert(ranges_.extract(start));
}

void AddressSpace::forget_freed(std::uint64_t start, std::uint64_t bytes) {
  erase_overlapping(freed_, start, bytes);
}

Range* AddressSpace::find(std::uint64_t address) {
  const auto found = containing(ranges_, address);
  return found == ranges_.end() ? nullptr : &found->second;
}

Range* AddressSpace::find_start(std::uint64_t start) {
  const auto found = ranges_.find(start);
  return found == ranges_.end() ? nullptr : &found->second;
}

bool AddressSpace::overlaps(std::uint64_t start, std::uint64_t bytes) {
  const auto next = ranges_.lower_bound(start);
  if (next != ranges_.end() && next->first - start < bytes) return true;
  return next != ranges_.begin() && std::prev(next)->second.end() > start;
}

std::vector<Range*> AddressSpace::tiles(std::uint64_t start, std::uint64_t bytes) {
  std::vector<Range*> tiles;
  for (auto at = ranges_.find(start); bytes != 0; ++at) {
    if (at == ranges_.end() || at->first != start || at->second.bytes > bytes) return {};
    tiles.push_back(&at->second);
    start += at->second.bytes;
    bytes -= at->second.bytes;
  }
  return tiles;
}

Reservation& AddressSpace::reserve(std::uint64_t start, std::uint64_t bytes) {
  return reservations_.emplace(start, Reservation{start, bytes}).first->second;
}

void AddressSpace::unreserve(std::uint64_t start) {
  BERTH_CHECK(reservations_.erase(start) == 1);
}

Reservation* AddressSpace::find_reservation(std::uint64_t address) {
  const auto found = containing(reservations_, address);
  return found == reservations_.end() ? nullptr : &found->second;
}

Span AddressSpace::span(std::uint64_t address, std::uint64_t bytes) {
  const auto freed = containing(freed_, address);
  if (freed == freed_.end() || bytes > freed->second.end() - address)
    return span_of_ranges(address, bytes);
  return stream_ordered_span(freed->second);
}

Span AddressSpace::span_of_ranges(std::uint64_t address, std::uint64_t bytes) {
  auto at = containing(ranges_, address);
  if (at == ranges_.end()) {
    const bool stale = address == 0 || address + bytes < address || arena.contains(address);
    // A host range that extends into pinned memory is neither pageable nor pinned.
    if (stale || overlaps(address, bytes)) return {};
    return {.kind = Span::Kind::pageable};
  }
  const Range& first = at->second;
  Span span{.kind = first.is_host() ? Span::Kind::pinned : Span::Kind::device,
            .device = first.device,
            .closed = first.is_closed(),
            .readers = first.readers,
            .writers = first.writers};
  const bool is_mapping = first.kind == RangeKind::mapping;
  const Reservation* reservation = is_mapping ? find_reservation(address) : nullptr;
  std::uint64_t reach = first.end();
  while (reach - address < bytes) {
    ++at;
    const bool goes_on = reservation != nullptr && at != ranges_.end() && at->first == reach &&
                         reach - reservation->start < reservation->bytes;
    if (!goes_on) return {};
    span.readers &= at->second.readers;
    span.writers &= at->second.writers;
    reach = at->second.end();
  }
  return span;
}

bool AddressSpace::arrive(const Range& range) {
  if (withdrawn_.erase(range.id) != 0) return false;
  // A faulted context runs no more frees, so its remaining memory ends here.
  erase_overlapping(arrived_, range.start, range.bytes);
  arrived_.emplace(range.start, range);
  return true;
}

bool AddressSpace::depart(const Range& range) {
  const bool is_here = has_arrived(range);
  withdraw(range);  // nothing may have ordered the free behind the allocation
  return is_here;
}

void AddressSpace::withdraw(const Range& range) {
  if (has_arrived(range))
    arrived_.erase(range.start);
  else
    withdrawn_.insert(range.id);
}

bool AddressSpace::has_arrived(const Range& range) const {
  const auto found = arrived_.find(range.start);
  return found != arrived_.end() && found->second.id == range.id;
}

Range* AddressSpace::find_for_work(std::uint64_t address) {
  const auto arrived = containing(arrived_, address);
  if (arrived != arrived_.end()) return &arrived->second;
  Range* range = find(address);
  return range != nullptr && !range->is_stream_ordered() ? range : nullptr;
}

Span AddressSpace::span_for_work(std::uint64_t address, std::uint64_t bytes) {
  const auto arrived = containing(arrived_, address);
  if (arrived == arrived_.end()) {
    const Range* range = find(address);
    return range != nullptr && range->is_stream_ordered() ? Span{} : span_of_ranges(address, bytes);
  }
  const Range& range = arrived->second;
  if (bytes > range.end() - address) return {};
  return stream_ordered_span(range);
}

}  // namespace berth::sim
