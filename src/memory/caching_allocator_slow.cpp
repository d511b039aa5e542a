// SPDX-License-Identifier: Apache-2.0
// What the rungs of the ladder are made of: growing and giving back. Everything here calls the driver,
// and so holds `mutex_` only between calls.
#include <algorithm>
#include <mutex>
#include <utility>

#include "berth/error.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/gauge.hpp"

namespace berth {

void* CachingAllocator::grow_until_taken(Request& request) {
  // Another thread's free may have made room meanwhile, and another thread's hit may take what was
  // grown for us: so take first, and grow until there is something to take.
  if (void* data = take_from_heap(request)) return data;
  for (bool grown = true; grown;) {
    if (void* data = grow(request, grown)) return data;
    if (!grown) break;
    if (void* data = take_from_heap(request)) {
      const MutexLock lock(mutex_);
      ++counters_.allocations_grown;
      return data;
    }
  }
  return nullptr;
}

void* CachingAllocator::grow(Request& request, bool& grown) {
  grown = false;
  if (source_->wants_idle_memory()) note_idle_memory();
  std::optional<SegmentSource::Growth> growth = plan_growth(request, SegmentSource::Joining::yes);
  const bool obtains = growth && growth->bytes > 0;
  if (const std::size_t excess =
          obtains ? std::max(budget_.excess(), excess_slack(request, growth->bytes)) : 0;
      excess > 0) {
    // Not while the plan holds, which counts on free memory that goes here.
    cancel_growth(*growth);
    release_idle(excess, idle_now());
    growth = plan_growth(request, SegmentSource::Joining::yes);
  }
  if (growth && !obtain(request, *growth)) {
    if (growth->parts.empty()) return nullptr;
    // Mappings may be what the driver has no room for. Memory in one piece may still be had.
    growth = plan_growth(request, SegmentSource::Joining::no);
    if (growth && !obtain(request, *growth)) return nullptr;
  }
  if (!growth) return nullptr;
  grown = true;
  const MutexLock lock(mutex_);
  Block* const block =
      source_->finish_growth(heap_, *growth, request.bytes_requested, request.owner);
  counters_.page_remaps += growth->granules_remapped;
  if (growth->bytes > 0) {
    raise_gauge(counters_.bytes_reserved, growth->bytes);
    ++counters_.segments_mapped;
  }
  count_blocks();
  if (block == nullptr) return nullptr;
  if (growth->bytes > 0) ++counters_.allocations_grown;
  return hand_out(*block, request);
}

std::size_t CachingAllocator::excess_slack(const Request& request, std::size_t bytes) const {
  if (!slack_max_) return 0;
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  const auto most = std::max<std::uint64_t>(counters_.bytes_active.peak,
                                            counters_.bytes_active.current + request.bytes);
  const auto allowed = most + static_cast<std::size_t>(static_cast<double>(most) * *slack_max_ / 2);
  const std::size_t reserved = counters_.bytes_reserved.current + bytes;
  return reserved > allowed ? reserved - allowed : 0;
}

std::optional<SegmentSource::Growth> CachingAllocator::plan_growth(Request& request,
                                                                   SegmentSource::Joining joining) {
  request.beyond_limit_bytes = 0;
  const MutexLock lock(mutex_);
  // What is open to all and what is the stream's own may lie side by side: now they must not be told
  // apart.
  if (heap_.has_granules() && request.owner != kUnowned) {
    heap_.transfer(kUnowned, request.owner, heap_.serial());
  }
  auto growth = source_->plan_growth(heap_, request.bytes, request.owner, joining);
  if (!growth) return std::nullopt;
  if (!budget_.try_reserve(growth->bytes)) {
    source_->cancel_growth(heap_, *growth);
    ++counters_.limit_rejections;
    request.beyond_limit_bytes = budget_.beyond_max(growth->bytes);
    return std::nullopt;
  }
  return growth;
}

void CachingAllocator::cancel_growth(const SegmentSource::Growth& growth) {
  budget_.give_back(growth.bytes);
  const MutexLock lock(mutex_);
  source_->cancel_growth(heap_, growth);
  count_blocks();
}

bool CachingAllocator::obtain(Request& request, SegmentSource::Growth& growth) {
  try {
    if (growth.bytes > 0) is_captured(request);
    if (request.stream && !leaves_headroom(request.stream->context(), growth.bytes)) {
      cancel_growth(growth);
      const MutexLock lock(mutex_);
      ++counters_.limit_rejections;
      return false;
    }
    if (source_->obtain(growth)) return true;
  } catch (const DriverError& error) {
    cancel_growth(growth);
    throw DriverError(name_ + " cannot grow: " + error.what(), error.driver_code());
  } catch (...) {
    cancel_growth(growth);
    throw;
  }
  cancel_growth(growth);
  request.refused_by_driver = true;
  return false;
}

bool CachingAllocator::leaves_headroom(DeviceContext& context, std::size_t bytes) const {
  if (headroom_bytes_ == 0 || bytes == 0) return true;
  const ContextScope scope(context);
  std::size_t free = 0;
  std::size_t total = 0;
  driver_.mem_get_info(&free, &total);
  return free >= bytes && free - bytes >= headroom_bytes_;
}

void* CachingAllocator::open_then_grow(Request& request, const Freed& idle) {
  if (keeps_streams_apart()) {
    if (void* data = give_back_then_grow(request, idle)) return data;
    if (keeps_memory_) {  // nothing went back, and nothing will be open to all
      if (void* data = pass_on_idle(request)) return data;
    }
  }
  disown(idle);
  return grow_until_taken(request);
}

void* CachingAllocator::give_back_then_grow(Request& request, Freed idle) {
  std::size_t lacking = request.bytes;
  {
    const MutexLock lock(mutex_);
    if (heap_.has_granules()) {  // new ones are joined with those that its stream has
      const std::size_t own = heap_.whole_granules(request.owner) * heap_.granule_bytes();
      lacking -= std::min(lacking, own);
      std::erase(idle.owners, request.owner);
    }
  }
  return give_back_whole(lacking, idle) > 0 ? grow_until_taken(request) : nullptr;
}

std::size_t CachingAllocator::give_back_whole(std::size_t bytes, const Freed& idle) {
  const std::size_t given_back = give_back(bytes);
  return given_back < bytes ? given_back + give_back(bytes - given_back, idle) : given_back;
}

std::size_t CachingAllocator::release_idle(std::size_t bytes, const Freed& idle) {
  std::size_t given_back = 0;
  if (keeps_streams_apart()) {
    given_back = give_back_whole(bytes, idle);
    if (given_back >= bytes) return given_back;
  }
  disown(idle);
  return given_back + give_back(bytes - given_back);
}

void CachingAllocator::note_idle_memory() {
  const Freed idle = idle_now();
  if (!keeps_streams_apart()) disown(idle);
  const MutexLock lock(mutex_);
  source_->note_idle_memory(heap_, idle.owners, idle.serial);
}

std::size_t CachingAllocator::give_back(std::size_t bytes, const Freed& idle) {
  if (keeps_memory_) return 0;
  std::vector<SegmentSource::Range> ranges;
  {
    const MutexLock lock(mutex_);
    std::size_t opened = 0;
    for (const OwnerId owner : idle.owners) {  // for no one to take: it is held at once
      if (opened >= bytes) break;
      opened += heap_.transfer_whole(owner, kUnowned, idle.serial, bytes - opened);
    }
    ranges = source_->plan_return(heap_, bytes);
  }
  std::size_t given_back = 0;
  for (SegmentSource::Range& range : ranges) {
    const std::size_t range_bytes = range.held->bytes;
    const bool gone = source_->give_back(range);
    const MutexLock lock(mutex_);
    if (!gone) {
      source_->cancel_return(heap_, std::move(range));
      count_blocks();
      continue;
    }
    source_->finish_return(heap_, std::move(range));
    budget_.give_back(range_bytes);
    lower_gauge(counters_.bytes_reserved, range_bytes);
    ++counters_.segments_released;
    given_back += range_bytes;
    count_blocks();
  }
  return given_back;
}

std::size_t CachingAllocator::trim(std::size_t bytes_to_keep) {
  const std::size_t reserved = budget_.reserved();
  return release_cached(reserved > bytes_to_keep ? reserved - bytes_to_keep : 0,
                        Waiting::for_streams);
}

std::size_t CachingAllocator::release_unused(std::chrono::nanoseconds age,
                                             DemandHistory::Time now) {
  require_origin();
  std::size_t unused = 0;
  {
    const MutexLock lock(mutex_);
    settle_all(ThreadCaches::Halt(caches_));
    history_.add(now, demand_.peak);
    demand_.peak = demand_.current;
    const auto needed = history_.most_since(now - age);
    const std::size_t reserved = counters_.bytes_reserved.current;
    if (!needed || *needed >= reserved) return 0;
    unused = heap_.whole_granules_of(reserved - *needed);
  }
  return unused > 0 ? release_cached(unused, Waiting::no) : 0;
}

std::size_t CachingAllocator::release_cached(std::size_t bytes, Waiting waiting) {
  require_origin();
  const MutexLock slow(slow_mutex_);
  flush_caches();
  reclaim_deferred();
  if (keeps_memory_ || is_asleep()) return 0;
  if (waiting != Waiting::no) {
    while (waiting == Waiting::for_all && wait_for_oldest_deferred()) continue;
    return release_idle(bytes, idle_after_wait());
  }
  return release_idle(bytes, idle_now());
}

std::size_t CachingAllocator::try_release_cached(std::size_t bytes) {
  require_origin();
  const std::unique_lock slow(slow_mutex_, std::try_to_lock);
  if (!slow.owns_lock()) return 0;
  flush_caches();
  reclaim_deferred();
  return keeps_memory_ || is_asleep() ? 0 : release_idle(bytes, idle_now());
}

CachingAllocator::Ahead CachingAllocator::grow_ahead(std::size_t bytes) {
  require_origin();
  SegmentSource::Growth growth{.bytes = bytes};
  if (!budget_.try_reserve(bytes)) return Ahead::at_limit;
  try {
    if (!source_->obtain(growth)) {
      budget_.give_back(bytes);
      return Ahead::no_memory;
    }
  } catch (...) {
    budget_.give_back(bytes);
    throw;
  }
  const MutexLock lock(mutex_);
  source_->finish_growth(heap_, growth, 0, kUnowned);
  raise_gauge(counters_.bytes_reserved, bytes);
  ++counters_.segments_mapped;
  count_blocks();
  return Ahead::grown;
}

std::optional<StreamTable::Entry> CachingAllocator::find(OwnerId owner) const {
  const MutexLock lock(mutex_);
  return streams_.knows(owner) ? std::optional(streams_.entry(owner)) : std::nullopt;
}

void CachingAllocator::flush_caches() {
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  halt.for_each([&](ThreadCache& cache) { cache.fronts().flush(back_to_heap()); });
  hand_over_.fronts().flush(back_to_heap());
  count_blocks();
}

void CachingAllocator::settle(Ledger& ledger) const {
  // What a thread did not give to the heap or take from it went into its cache or came from there.
  blocks_cached_ += static_cast<std::size_t>(std::exchange(ledger.blocks_through_heap, 0) -
                                             ledger.blocks_allocated.change());
  ledger.blocks_settled += ledger.blocks_allocated.change();
  counters_.allocations += std::exchange(ledger.allocations, 0);
  GaugeChange active = ledger.bytes_allocated;  // what is pending does not change here
  GaugeChange demand = active;
  active.settle(counters_.bytes_active);
  demand.settle(demand_);
  ledger.bytes_requested.settle(counters_.bytes_requested);
  ledger.bytes_allocated.settle(counters_.bytes_allocated);
  ledger.blocks_allocated.settle(counters_.blocks_allocated);
}

void CachingAllocator::settle_all(const ThreadCaches::Halt& halt) const {
  settle(ledger_without_cache_);
  halt.for_each([this](ThreadCache& cache) BERTH_UNDER_LOCK { settle(cache.ledger()); });
  count_blocks();
  halt.for_each([this](ThreadCache& cache) BERTH_UNDER_LOCK {
    cache.set_blocks_live(counters_.blocks_allocated.current);
  });
}

}  // namespace berth
