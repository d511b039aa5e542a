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
  std::optional<SegmentSource::Growth> growth;
  {
    const MutexLock lock(mutex_);
    // What is open to all and what is the stream's own may lie side by side: now they must not be
    // told apart.
    if (request.owner != kUnowned) heap_.transfer(kUnowned, request.owner, heap_.serial());
    growth = source_->plan_growth(heap_, request.bytes, request.owner);
    if (!growth) return nullptr;
    const std::size_t reserved = counters_.bytes_reserved.current + growth->bytes;
    if (growth->bytes > 0 && reserved_bytes_max_ && reserved > *reserved_bytes_max_) {
      source_->cancel_growth(heap_, *growth);
      ++counters_.limit_rejections;
      return nullptr;
    }
  }
  const auto cancel = [&] {
    const MutexLock lock(mutex_);
    source_->cancel_growth(heap_, *growth);
  };
  bool obtained = false;
  try {
    obtained = source_->obtain(*growth);
  } catch (const DriverError& error) {
    cancel();
    throw DriverError(name_ + " cannot grow: " + error.what(), error.driver_code());
  }
  if (!obtained) {
    cancel();
    request.refused_by_driver = true;
    return nullptr;
  }
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

void CachingAllocator::pass_on(OwnerId from, OwnerId to, std::uint64_t serial) {
  const MutexLock lock(mutex_);
  counters_.blocks_passed_on += heap_.transfer(from, to, serial);
  if (streams_.entry(from).retired) streams_.set_over(from);
  count_blocks();
}

std::vector<OwnerId> CachingAllocator::owners_to_settle() const {
  std::vector<OwnerId> owners = heap_.owners_with_free_blocks();
  const std::vector<OwnerId> ending = streams_.ending();
  owners.insert(owners.end(), ending.begin(), ending.end());
  return owners;
}

void CachingAllocator::pass_on_idle(OwnerId to) {
  std::vector<OwnerId> owners;
  std::uint64_t serial = 0;
  {
    const MutexLock lock(mutex_);
    owners = owners_to_settle();
    serial = heap_.serial();  // before the question, so that the answer covers these frees
  }
  for (const OwnerId owner : owners) {
    if (owner == to) continue;
    const StreamTable::Entry other = entry(owner);
    const bool idle = other.retired ? other.last_work == nullptr || other.last_work->ref().is_done()
                                    : other.stream.is_done();
    if (idle) pass_on(owner, to, serial);
  }
}

void CachingAllocator::disown_all_after_wait() {
  std::vector<OwnerId> owners;
  std::uint64_t serial = 0;
  {
    const MutexLock lock(mutex_);
    owners = owners_to_settle();
    serial = heap_.serial();
  }
  for (const OwnerId owner : owners) {
    const StreamTable::Entry other = entry(owner);
    if (!other.retired) other.stream.sync();
    if (other.retired && other.last_work != nullptr) other.last_work->ref().sync();
    pass_on(owner, kUnowned, serial);
  }
}

SharedEvent CachingAllocator::record_or_wait(StreamRef stream) {
  try {
    return record(stream);
  } catch (const Error& error) {
    driver_.report(Severity::warning, name_ + ": waiting for a stream", error);
    stream.sync();
    return nullptr;
  }
}

void CachingAllocator::retire_stream(StreamRef stream) noexcept {
  try {
    {
      const MutexLock lock(mutex_);
      if (!streams_.find(stream)) return;
    }
    SharedEvent last_work = record_or_wait(stream);
    const MutexLock slow(slow_mutex_);
    const MutexLock lock(mutex_);
    const std::optional<OwnerId> id = streams_.find(stream);
    if (!id) return;
    const ThreadCaches::Halt halt(caches_);
    settle_all(halt);
    halt.for_each([&](ThreadCache& cache) BERTH_REQUIRES(mutex_) {
      cache.drop(*id, [this](Block& block) BERTH_REQUIRES(mutex_) { uncache(block); });
    });
    if (last_work != nullptr) deferred_.seal(*id, deferred_.mark(), last_work);
    streams_.retire(*id, std::move(last_work));
    if (streams_.is_over(*id)) heap_.transfer(*id, kUnowned, heap_.serial());
    streams_.forget_all_but(owners_in_use());
    count_blocks();
  } catch (const Error& error) {
    driver_.report(Severity::error, name_ + ": a stream could not be retired", error);
  }
}

void CachingAllocator::flush_caches() {
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  halt.for_each([this](ThreadCache& cache) BERTH_REQUIRES(mutex_) {
    cache.flush([this](Block& block) BERTH_REQUIRES(mutex_) { uncache(block); });
  });
  count_blocks();
}

void CachingAllocator::uncache(Block& block) {
  --blocks_cached_;
  release(block);
}

void CachingAllocator::settle(ThreadCache* cache) const {
  if (cache == nullptr) return;
  Ledger& ledger = cache->ledger();
  // A thread by itself frees into its cache and allocates from it.
  blocks_cached_ -= static_cast<std::size_t>(ledger.blocks_allocated.change());
  counters_.allocations += std::exchange(ledger.allocations, 0);
  GaugeChange active = ledger.bytes_allocated;  // what is pending does not change here
  active.settle(counters_.bytes_active);
  ledger.bytes_requested.settle(counters_.bytes_requested);
  ledger.bytes_allocated.settle(counters_.bytes_allocated);
  ledger.blocks_allocated.settle(counters_.blocks_allocated);
  cache->set_blocks_live(counters_.blocks_allocated.current);
}

void CachingAllocator::count_allocated(std::size_t requested, std::size_t rounded) {
  raise_gauge(counters_.bytes_requested, requested);
  raise_gauge(counters_.bytes_allocated, rounded);
  raise_gauge(counters_.bytes_active, rounded);
  raise_gauge(counters_.blocks_allocated, 1);
  ++counters_.allocations;
}

void CachingAllocator::count_freed(std::size_t requested, std::size_t rounded) {
  lower_gauge(counters_.bytes_requested, requested);
  lower_gauge(counters_.bytes_allocated, rounded);
  lower_gauge(counters_.bytes_active, rounded);
  lower_gauge(counters_.blocks_allocated, 1);
}

void CachingAllocator::settle_all(const ThreadCaches::Halt& halt) const {
  halt.for_each([this](ThreadCache& cache) BERTH_REQUIRES(mutex_) { settle(&cache); });
  count_blocks();
}

void CachingAllocator::stream_retiring(DeviceContext& context, CUstream stream) noexcept {
  retire_stream(StreamRef(context, stream));
}

}  // namespace berth
