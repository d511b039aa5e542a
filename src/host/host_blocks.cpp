// SPDX-License-Identifier: Apache-2.0
#include "host/host_blocks.hpp"

#include <algorithm>
#include <iterator>

#include "berth/host_allocator.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_errors.hpp"

namespace berth {
namespace {

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

SegmentInfo segment_of(const BlockInfo& block) {
  return {.address = block.address, .bytes = block.bytes, .blocks = {block}};
}

}  // namespace

std::size_t HostBlocks::bytes_for(std::size_t bytes_requested) {
  return align_up(bytes_requested, HostAllocator::kAlignment);
}

void HostBlocks::add(void* data, std::size_t bytes_requested, StreamUses::Memory uses) {
  const bool is_new = live_.emplace(data, Live{bytes_requested, uses}).second;
  BERTH_CHECK(is_new);
  const std::size_t bytes = bytes_for(bytes_requested);
  ++counters_.allocations;
  ++counters_.allocations_grown;
  ++counters_.segments_mapped;
  raise_gauge(counters_.blocks_allocated, 1);
  raise_gauge(counters_.bytes_requested, bytes_requested);
  raise_gauge(counters_.bytes_allocated, bytes);
  raise_gauge(counters_.bytes_active, bytes);
  raise_gauge(counters_.bytes_reserved, bytes);
  count_metadata();
}

std::optional<StreamUses::Memory> HostBlocks::find_uses(const void* data) const {
  const auto found = live_.find(data);
  return found == live_.end() ? std::nullopt : std::optional(found->second.uses);
}

std::optional<HostBlocks::Found> HostBlocks::find(const void* data) const {
  const auto later = live_.upper_bound(data);
  if (later == live_.begin()) return std::nullopt;
  const auto& [start, block] = *std::prev(later);
  if (address_of(data) - address_of(start) >= block.bytes_requested) return std::nullopt;
  return Found{const_cast<void*>(start), block.bytes_requested};
}

void HostBlocks::prepare_defer(void* data) {
  Live& block = live_.at(data);
  if (!block.deferred.empty()) return;
  PendingBlocks made;
  made.emplace(PendingId{}, Pending{});
  block.deferred = made.extract(made.begin());
}

std::string HostBlocks::describe_foreign(const void* data, const char* action) const {
  // Freed blocks return to the system, which may reuse their addresses, so no record is kept.
  std::string what = "it is not a live block: it was freed before, or belongs to another allocator";
  if (const auto found = find(data)) what = describe_inside(data, found->data);
  for (const auto& [id, block] : pending_) {
    if (block.data == data) what = kFreedAndPending;
  }
  return describe_refused_pointer(kHostAllocatorName, action, data, what);
}

std::size_t HostBlocks::remove(void* data) {
  const auto found = live_.find(data);
  const std::size_t bytes_requested = found->second.bytes_requested;
  live_.erase(found);
  count_free(bytes_requested);
  count_release(bytes_for(bytes_requested));
  count_metadata();
  return bytes_for(bytes_requested);
}

void HostBlocks::defer(void* data) {
  auto live = live_.extract(data);
  Live& block = live.mapped();
  block.deferred.key() = ++last_id_;
  block.deferred.mapped() = {data, bytes_for(block.bytes_requested), block.uses};
  pending_.insert(pending_.end(), std::move(block.deferred));
  count_free(block.bytes_requested);
  ++counters_.frees_deferred;
  raise_gauge(counters_.blocks_pending, 1);
  count_metadata();
}

std::optional<HostBlocks::Next> HostBlocks::next_pending(PendingId id) const {
  if (pending_.empty()) return std::nullopt;
  const auto after = pending_.upper_bound(id);
  const auto next = after == pending_.end() ? pending_.begin() : after;
  return Next{next->first, next->second.uses};
}

std::optional<HostBlocks::Pending> HostBlocks::remove_pending(PendingId id) {
  const auto removed = pending_.extract(id);
  if (removed.empty()) return std::nullopt;
  const Pending& block = removed.mapped();
  ++counters_.frees_reclaimed;
  lower_gauge(counters_.blocks_pending, 1);
  count_release(block.bytes);
  count_metadata();
  return block;
}

MemorySnapshot HostBlocks::snapshot() const {
  MemorySnapshot snapshot{.allocator = kHostAllocatorName, .counters = counters_, .segments = {}};
  for (const auto& [data, block] : live_) {
    snapshot.segments.push_back(segment_of({.address = address_of(data),
                                            .bytes = bytes_for(block.bytes_requested),
                                            .bytes_requested = block.bytes_requested,
                                            .state = BlockState::allocated,
                                            .stream = std::nullopt,
                                            .data = address_of(data)}));
  }
  for (const auto& [id, block] : pending_) {
    snapshot.segments.push_back(segment_of({.address = address_of(block.data),
                                            .bytes = block.bytes,
                                            .bytes_requested = 0,
                                            .state = BlockState::pending,
                                            .stream = std::nullopt,
                                            .data = address_of(block.data)}));
  }
  std::ranges::sort(snapshot.segments, {}, &SegmentInfo::address);
  return snapshot;
}

void HostBlocks::validate() const {
  std::size_t requested = 0;
  std::size_t allocated = 0;
  std::size_t active = 0;
  for (const auto& [data, block] : live_) {
    BERTH_CHECK(is_aligned(address_of(data), HostAllocator::kAlignment));
    requested += block.bytes_requested;
    allocated += bytes_for(block.bytes_requested);
  }
  active = allocated;
  for (const auto& [id, block] : pending_) active += block.bytes;
  BERTH_CHECK(counters_.blocks_allocated.current == live_.size());
  BERTH_CHECK(counters_.blocks_pending.current == pending_.size());
  BERTH_CHECK(counters_.bytes_requested.current == requested);
  BERTH_CHECK(counters_.bytes_allocated.current == allocated);
  BERTH_CHECK(counters_.bytes_active.current == active);
  BERTH_CHECK(counters_.bytes_reserved.current == active);
}

void HostBlocks::count_free(std::size_t bytes_requested) {
  ++counters_.frees;
  lower_gauge(counters_.blocks_allocated, 1);
  lower_gauge(counters_.bytes_requested, bytes_requested);
  lower_gauge(counters_.bytes_allocated, bytes_for(bytes_requested));
}

void HostBlocks::count_release(std::size_t bytes) {
  ++counters_.segments_released;
  lower_gauge(counters_.bytes_active, bytes);
  lower_gauge(counters_.bytes_reserved, bytes);
}

/// The size of the containers: a node is its value and about three words, a bucket one.
void HostBlocks::count_metadata() {
  constexpr std::size_t kNodeWords = 4 * sizeof(void*);
  set_gauge(counters_.bytes_metadata,
            live_.size() * (sizeof(decltype(live_)::value_type) + kNodeWords) +
                pending_.size() * (sizeof(decltype(pending_)::value_type) + kNodeWords));
}

}  // namespace berth
