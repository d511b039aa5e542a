// SPDX-License-Identifier: Apache-2.0
// Memory that a request's stream takes behind waits on the GPU: memory of other streams, and its
// own that awaits their uses. The host does not wait.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "memory/gauge.hpp"
#include "memory/order/stream_order.hpp"

namespace berth {

std::size_t StreamOrder::take_behind_waits(const Request& request,
                                           std::span<const OwnerId> owners) {
  if (owners.empty()) return 0;
  std::size_t taken = 0;
  const RelaxedCapture relaxed(driver_);
  for (const OwnerId owner : owners) {  // one by one, so that one event is enough
    const std::optional<EndOfWork> end = end_of_work(owner);
    if (!end) continue;
    BERTH_CHECK(owner != request.owner);
    if (end->event != nullptr) request.stream->wait(end->event->ref());
    const MutexLock lock(heap_.mutex);
    const std::size_t blocks = heap_.blocks.transfer(owner, request.owner, end->freed.serial,
                                                     BlockHeap::Order::behind_wait);
    if (blocks > 0 && end->event != nullptr) ++heap_.counters.stream_waits_inserted;
    taken += blocks;
    heap_.count_blocks();
  }
  return taken;
}

std::size_t StreamOrder::take_behind_waits(const Request& request) {
  std::vector<OwnerId> owners;
  {
    const MutexLock lock(heap_.mutex);
    owners = heap_.blocks.owners_with_free_blocks();
    std::erase(owners, request.owner);
  }
  return take_behind_waits(request, owners);
}

// All remaining memory of a stream is transferred, which is more than the request lacks. In small
// portions, memory would be scattered over streams, and each portion would need new mappings and a
// wait of its own.
std::size_t StreamOrder::take_some_behind_waits(const Request& request) {
  std::vector<OwnerId> donors;
  {
    const MutexLock lock(heap_.mutex);
    donors = find_donors(request);
  }
  std::size_t taken = 0;
  for (const OwnerId giver : donors) {
    taken += take_behind_waits(request, {&giver, 1});
    const MutexLock lock(heap_.mutex);
    if (!lacks_memory(request)) break;
  }
  return taken;
}

bool StreamOrder::has_fit(OwnerId owner, const Request& request) const {
  return heap_.blocks.free_blocks(owner).best_fit(request.bytes) != nullptr;
}

bool StreamOrder::lacks_memory(const Request& request) const {
  if (has_fit(request.owner, request) || has_fit(kUnowned, request)) return false;
  // One more than the minimum, so that there is a choice of the granules that the request gets.
  return !heap_.blocks.has_granules() || heap_.blocks.whole_granules_for(request.owner) <=
                                             heap_.blocks.granules_to_join(request.bytes);
}

/// Whether a wait for the owner's stream orders all of its free memory. Streams without
/// such an order are skipped, because otherwise they would block all others forever.
bool StreamOrder::can_donate(OwnerId owner) const {
  const StreamTable::Entry& entry = heap_.streams.entry(owner);
  if (entry.unordered || entry.destroyed) return false;
  return entry.retired || entry.is_owned() ||
         heap_.blocks.freed_last(owner) <= entry.marks.covered();
}

std::vector<OwnerId> StreamOrder::find_donors(const Request& request) const {
  if (!lacks_memory(request)) return {};
  std::vector<OwnerId> donors = heap_.blocks.owners_with_free_blocks();
  std::erase_if(donors, [&](OwnerId owner) BERTH_UNDER_LOCK {
    return owner == request.owner || !can_donate(owner);
  });
  std::ranges::sort(donors, {},
                    [&](OwnerId owner) BERTH_UNDER_LOCK { return heap_.blocks.freed_last(owner); });
  std::vector<OwnerId> fitting = donors;
  std::erase_if(fitting, [&](OwnerId owner) BERTH_UNDER_LOCK { return !has_fit(owner, request); });
  if (!fitting.empty()) return fitting;
  std::size_t granules = heap_.blocks.whole_granules_for(request.owner);
  std::erase_if(donors, [&](OwnerId owner) BERTH_UNDER_LOCK {
    granules += heap_.blocks.whole_granules(owner);
    return heap_.blocks.whole_granules(owner) == 0;
  });
  if (granules < heap_.blocks.granules_to_join(request.bytes)) donors.clear();
  return donors;
}

std::size_t StreamOrder::take_deferred(const Request& request) {
  constexpr int kWaitsMax = 16;
  std::size_t taken = 0;
  for (int waits = 0; waits < kWaitsMax; ++waits) {
    std::optional<BlockUses::Awaited> awaited;
    {
      const MutexLock lock(heap_.mutex);
      if (!lacks_memory(request)) break;
      awaited = uses_.awaited_by(request.owner, request.bytes);
    }
    if (!awaited) break;
    request.stream->wait(awaited->end.event->ref());
    const MutexLock lock(heap_.mutex);
    ++heap_.counters.stream_waits_inserted;
    taken += uses_.complete_for(request.owner, *awaited,
                                [this](Block& block) BERTH_UNDER_LOCK { release_deferred(block); });
    heap_.count_blocks();
  }
  return taken;
}

std::vector<OwnerId> StreamOrder::find_owners_held_up(const Request& request) const {
  if (!lacks_memory(request)) return {};
  std::vector<OwnerId> owners = uses_.owners_held_up();
  std::erase_if(owners, [&](OwnerId owner) BERTH_UNDER_LOCK {
    const StreamTable::Entry& entry = heap_.streams.entry(owner);
    return owner == request.owner || entry.unordered || !entry.is_drain_observable();
  });
  return owners;
}

std::size_t StreamOrder::take_deferred_of_others(const Request& request) {
  std::vector<OwnerId> owners;
  std::uint64_t freed_by = 0;
  {
    const MutexLock lock(heap_.mutex);
    owners = find_owners_held_up(request);
    freed_by = uses_.now();
  }
  std::size_t taken = 0;
  for (const OwnerId owner : owners) {
    const std::vector<EndOfWork> ends = ends_of_work({&owner, 1});
    if (ends.empty()) continue;
    std::optional<BlockUses::Awaited> awaited;
    {
      const MutexLock lock(heap_.mutex);
      awaited = uses_.awaited_by(owner, std::numeric_limits<std::size_t>::max());
    }
    if (!awaited) continue;
    if (ends.front().event != nullptr) request.stream->wait(ends.front().event->ref());
    request.stream->wait(awaited->end.event->ref());
    const MutexLock lock(heap_.mutex);
    heap_.counters.stream_waits_inserted += ends.front().event != nullptr ? 2 : 1;
    taken += uses_.complete_for_other(
        owner, *awaited, freed_by,
        [&](Block& block) BERTH_UNDER_LOCK { release_deferred(block, request.owner); });
    heap_.count_blocks();
    if (!lacks_memory(request)) break;
  }
  return taken;
}

}  // namespace berth
