// SPDX-License-Identifier: Apache-2.0
// Memory that a request's stream has behind waits on the GPU: of other streams, and of its own that
// awaits them. The host waits for nothing.
#include <algorithm>
#include <utility>

#include "memory/gauge.hpp"
#include "memory/order/stream_order.hpp"

namespace berth {

/// `take(end)` gives the request memory of a stream for whose work it waits, under the lock, and returns
/// how much.
template <class Take>
std::size_t StreamOrder::take_behind(const Request& request, std::span<const OwnerId> owners,
                                     const Take& take) {
  std::size_t taken = 0;
  for (const EndOfWork& end : ends_of_work(owners)) {
    if (end.event != nullptr) request.stream->wait(end.event->ref());
    const MutexLock lock(heap_.mutex);
    const std::size_t moved = take(end);
    if (moved > 0) ++heap_.counters.stream_waits_inserted;
    taken += moved;
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
  return take_behind(request, owners, [&](const EndOfWork& end) BERTH_UNDER_LOCK {
    return heap_.blocks.transfer(end.owner, request.owner, end.serial,
                                 BlockHeap::Order::behind_now);
  });
}

StreamOrder::Givers StreamOrder::find_givers(const Request& request) const {
  const BlockHeap& blocks = heap_.blocks;
  std::vector<OwnerId> owners = blocks.owners_with_free_blocks();
  std::erase(owners, request.owner);
  std::ranges::sort(owners, {}, [&](OwnerId owner) { return blocks.freed_last(owner); });
  for (const OwnerId owner : owners)
    if (blocks.free_blocks(owner).best_fit(request.bytes) != nullptr) return {{owner}};
  const std::size_t needed = blocks.granules_needed(request.bytes) + 1;
  const std::size_t own = blocks.whole_granules(request.owner) + blocks.whole_granules(kUnowned);
  Givers givers{{}, needed > own ? needed - own : 0};
  std::size_t found = 0;
  for (const OwnerId owner : owners) {
    const std::size_t granules = blocks.whole_granules(owner);
    if (granules == 0) continue;
    if (found >= givers.granules) break;
    givers.owners.push_back(owner);
    found += granules;
  }
  return found >= givers.granules ? givers : Givers{};
}

std::size_t StreamOrder::take_missing_behind_waits(const Request& request) {
  Givers givers;
  {
    const MutexLock lock(heap_.mutex);
    givers = find_givers(request);
  }
  std::size_t missing = givers.granules;
  return take_behind(request, givers.owners, [&](const EndOfWork& end) BERTH_UNDER_LOCK {
    constexpr auto kOrder = BlockHeap::Order::behind_now;
    const std::size_t moved =
        givers.granules > 0
            ? heap_.blocks.transfer_granules(end.owner, request.owner, end.serial, missing, kOrder)
            : heap_.blocks.transfer_fit(end.owner, request.owner, end.serial, request.bytes,
                                        kOrder);
    missing -= std::min(missing, moved);
    if (moved > 0) ++heap_.counters.blocks_passed_on;
    return moved;
  });
}

std::size_t StreamOrder::take_deferred(const Request& request) {
  std::size_t taken = 0;
  for (;;) {
    std::optional<BlockUses::Awaited> awaited;
    {
      const MutexLock lock(heap_.mutex);
      if (heap_.blocks.free_blocks(request.owner).best_fit(request.bytes) != nullptr) return taken;
      awaited = uses_.awaited_by(request.owner, request.bytes);
    }
    if (!awaited) return taken;
    request.stream->wait(awaited->end.event->ref());
    const MutexLock lock(heap_.mutex);
    ++heap_.counters.stream_waits_inserted;
    taken += uses_.pass_for(request.owner, *awaited,
                            [this](Block& block) BERTH_UNDER_LOCK { release_deferred(block); });
    heap_.count_blocks();
  }
}

}  // namespace berth
