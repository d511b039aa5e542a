// SPDX-License-Identifier: Apache-2.0
// What the rungs of the ladder are made of: growing, giving back, polling. Everything here calls
// the driver, and so holds `mutex_` only between calls.
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
  if (source_->wants_idle_memory()) disown_idle();
  std::optional<SegmentSource::Growth> growth = plan_growth(request, SegmentSource::Joining::yes);
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

std::optional<SegmentSource::Growth> CachingAllocator::plan_growth(const Request& request,
                                                                   SegmentSource::Joining joining) {
  const MutexLock lock(mutex_);
  if (source_->wants_idle_memory()) source_->note_idle_memory(heap_);
  // What is open to all and what is the stream's own may lie side by side: now they must not be told
  // apart.
  if (heap_.has_granules() && request.owner != kUnowned) {
    heap_.transfer(kUnowned, request.owner, heap_.serial());
  }
  auto growth = source_->plan_growth(heap_, request.bytes, request.owner, joining);
  if (!growth) return std::nullopt;
  const std::size_t reserved = counters_.bytes_reserved.current + growth->bytes;
  if (growth->bytes > 0 && reserved_bytes_max_ && reserved > *reserved_bytes_max_) {
    source_->cancel_growth(heap_, *growth);
    ++counters_.limit_rejections;
    return std::nullopt;
  }
  return growth;
}

bool CachingAllocator::obtain(Request& request, SegmentSource::Growth& growth) {
  const auto cancel = [&] {
    const MutexLock lock(mutex_);
    source_->cancel_growth(heap_, growth);
    count_blocks();
  };
  try {
    if (source_->obtain(growth)) return true;
  } catch (const DriverError& error) {
    cancel();
    throw DriverError(name_ + " cannot grow: " + error.what(), error.driver_code());
  }
  cancel();
  request.refused_by_driver = true;
  return false;
}

std::size_t CachingAllocator::give_back(std::size_t bytes) {
  std::vector<SegmentSource::Range> ranges;
  {
    const MutexLock lock(mutex_);
    ranges = source_->plan_return(heap_, bytes);
  }
  std::size_t given_back = 0;
  for (const SegmentSource::Range& range : ranges) {
    const std::size_t range_bytes = range.held->bytes;
    const bool gone = source_->give_back(range);
    const MutexLock lock(mutex_);
    if (!gone) {
      heap_.settle(*range.held, Block::State::free, kUnowned);
      count_blocks();
      continue;
    }
    source_->finish_return(heap_, range);
    lower_gauge(counters_.bytes_reserved, range_bytes);
    ++counters_.segments_released;
    given_back += range_bytes;
    count_blocks();
  }
  return given_back;
}

std::size_t CachingAllocator::trim(std::size_t bytes_to_keep) {
  require_origin();
  const MutexLock slow(slow_mutex_);
  flush_caches();
  reclaim_deferred();
  disown_all_after_wait();
  std::size_t reserved = 0;
  {
    const MutexLock lock(mutex_);
    reserved = counters_.bytes_reserved.current;
  }
  return reserved > bytes_to_keep ? give_back(reserved - bytes_to_keep) : 0;
}

StreamTable::Entry CachingAllocator::entry(OwnerId owner) const {
  const MutexLock lock(mutex_);
  return streams_.entry(owner);
}

SharedEvent CachingAllocator::record(StreamRef stream) {
  auto event = std::make_shared<EventLease>(events_(stream.context()).acquire());
  event->ref().record(stream);
  return event;
}

bool CachingAllocator::seal(OwnerId stream) noexcept {
  try {
    std::uint64_t mark = 0;
    {
      const MutexLock lock(mutex_);
      if (!deferred_.needs_seal(stream)) return true;
      mark = deferred_.mark();
    }
    const StreamTable::Entry used = entry(stream);
    const SharedEvent event = used.retired ? used.last_work : record(used.stream);
    const MutexLock lock(mutex_);
    deferred_.seal(stream, mark, event);
    return true;
  } catch (const std::exception& error) {
    driver_.report(
        Severity::warning,
        name_ + ": no event marks a deferred free yet, tried again later: " + error.what());
    return false;
  }
}

void CachingAllocator::pass(OwnerId stream, const SharedEvent& event) {
  const MutexLock lock(mutex_);
  for (Block* block : deferred_.pass(stream, event)) {
    ++counters_.frees_reclaimed;
    lower_gauge(counters_.bytes_active, block->bytes);
    release(*block);
  }
  count_blocks();
}

void CachingAllocator::reclaim_deferred() {
  std::vector<OwnerId> streams;
  {
    const MutexLock lock(mutex_);
    streams = deferred_.streams();
  }
  for (const OwnerId stream : streams) {
    if (!seal(stream)) continue;
    for (;;) {
      SharedEvent event;
      bool over = false;
      {
        const MutexLock lock(mutex_);
        if (!deferred_.has_marks(stream)) break;
        event = deferred_.front(stream);
        over = streams_.is_over(stream);
      }
      if (!over && (event == nullptr || !event->ref().is_done())) break;
      pass(stream, event);
    }
  }
}

bool CachingAllocator::wait_for_oldest_deferred() {
  std::vector<OwnerId> streams;
  {
    const MutexLock lock(mutex_);
    streams = deferred_.streams();
  }
  for (const OwnerId stream : streams) {
    if (!seal(stream)) continue;
    SharedEvent event;
    {
      const MutexLock lock(mutex_);
      event = deferred_.front(stream);
      if (event == nullptr && !streams_.is_over(stream)) continue;
      ++counters_.pending_free_waits;
    }
    if (event != nullptr) event->ref().sync();
    pass(stream, event);
    return true;
  }
  return false;
}

void CachingAllocator::flush_caches() {
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  const auto back_to_heap = [this](Block& block) BERTH_UNDER_LOCK { uncache(block); };
  halt.for_each([&](ThreadCache& cache) { cache.flush(back_to_heap); });
  hand_over_.flush(back_to_heap);
  count_blocks();
}

void CachingAllocator::uncache(Block& block) {
  --blocks_cached_;
  release(block);
}

void CachingAllocator::settle(Ledger& ledger) const {
  // What a thread did not give to the heap or take from it went into its cache or came from there.
  blocks_cached_ += static_cast<std::size_t>(std::exchange(ledger.blocks_through_heap, 0) -
                                             ledger.blocks_allocated.change());
  ledger.blocks_settled += ledger.blocks_allocated.change();
  counters_.allocations += std::exchange(ledger.allocations, 0);
  GaugeChange active = ledger.bytes_allocated;  // what is pending does not change here
  active.settle(counters_.bytes_active);
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
