// SPDX-License-Identifier: Apache-2.0
// The out-of-memory ladder, and the fast path of allocating and freeing.
#include "memory/caching_allocator.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "berth/device_allocator.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_errors.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

/// Of a request: far more than any device has, and far from where sums overflow.
constexpr std::size_t kBytesMax = std::size_t{1} << 47;

}  // namespace

CachingAllocator::CachingAllocator(const Driver& driver, Options options,
                                   const MakeSource& make_source)
    : driver_(driver),
      name_(std::move(options.name)),
      budget_(options.budget),
      headroom_bytes_(options.headroom_bytes),
      cross_stream_reuse_(options.cross_stream_reuse),
      slack_max_(options.slack_max),
      others_(std::move(options.others)),
      keeps_memory_(options.keeps_memory),
      on_pressure_(std::move(options.on_pressure)),
      events_(std::move(options.events)),
      blocks_in_use_(heap_.blocks_in_use()),
      caches_(mutex_,
              [this](ThreadCache& cache) BERTH_UNDER_LOCK {
                settle(cache.ledger());
                cache.fronts().flush(back_to_heap());
              }),
      source_(make_source(heap_)) {}

CachingAllocator::~CachingAllocator() {
  if (!origin_.is_here()) {  // the memory is the parent's, and so is the driver
    keep_until_exit(std::move(source_));
    return;
  }
  try {
    const MutexLock slow(slow_mutex_);
    while (wait_for_oldest_deferred()) continue;
  } catch (const Error& error) {
    driver_.report(Severity::error, name_ + ": at its end", error);
  }
  source_->give_back_all(heap_);
}

void CachingAllocator::let_in(DeviceContext& user) {
  const MutexLock slow(slow_mutex_);
  source_->let_in(user);
}

void* CachingAllocator::allocate_other(std::size_t bytes, StreamRef stream) {
  if (void* data = take_own(bytes, key_of(stream))) return data;
  return bytes == 0 ? nullptr : climb(make_request(bytes, stream));
}

void* CachingAllocator::allocate_other(std::size_t bytes, std::nullopt_t) {
  if (void* data = take_own(bytes, kNoStream)) return data;
  return bytes == 0 ? nullptr : climb(make_request(bytes, std::nullopt));
}

void CachingAllocator::deallocate_other(void* data) {
  if (!deallocate_at_hand(data)) deallocate_through_heap(data);
}

// Every rung searches again, because the rung before it, or another thread, may have made room.
void* CachingAllocator::climb(Request&& request) {
  if (void* data = take_from_heap(request)) return data;
  refuse_impossible(request);
  if (void* data = take_from_other_threads(request)) return data;
  if (void* data = climb_to_growth(request)) return data;
  if (void* data = release_then_grow(request)) return data;
  if (void* data = take_from_other_pools(request, Waiting::no)) return data;
  if (void* data = take_behind_waits(request)) return data;
  if (void* data = relieve_pressure_then_retry(request)) return data;
  if (void* data = wait_for_pending_then_retry(request)) return data;
  if (void* data = take_from_other_pools(request, Waiting::for_all)) return data;
  fail(request);
}

bool CachingAllocator::is_captured(Request& request) {
  if (!request.is_captured) {
    request.is_captured = request.stream && is_capturing(*request.stream);
  }
  if (!*request.is_captured || keeps_memory_) return *request.is_captured;
  throw InvalidArgument(name_ + describe_capture_without_pool());
}

void* CachingAllocator::climb_to_growth(Request& request) {
  if (void* data = reclaim_then_take(request)) return data;
  if (void* data = keeps_streams_apart() ? take_from_ended_streams(request)
                                         : take_from_idle_streams(request))
    return data;
  return grow_then_take(request);
}

CachingAllocator::Request CachingAllocator::make_request(std::size_t bytes,
                                                         std::optional<StreamRef> stream) {
  require_origin();
  const std::size_t rounded = align_up(std::min(bytes, kBytesMax), kBlockBytes);
  const StreamKey key = stream ? key_of(*stream) : kNoStream;
  ThreadCache* const cache = caches_.mine_or_new();
  if (cache != nullptr) {
    if (const auto owner = cache->owner_of(key)) return {rounded, bytes, *owner, stream, cache};
  }
  const MutexLock lock(mutex_);
  require_awake();
  const OwnerId owner = stream ? streams_.id_of(*stream) : kUnowned;
  if (cache != nullptr) cache->add_route(owner, key);
  return {rounded, bytes, owner, stream, cache};
}

void CachingAllocator::refuse_impossible(const Request& request) {
  const MutexLock lock(mutex_);
  const std::size_t capacity = std::min(source_->capacity_bytes(), budget_.max());
  if (request.bytes_requested <= capacity) return;
  ++counters_.out_of_memory;
  if (request.bytes_requested <= source_->capacity_bytes()) ++counters_.limit_rejections;
  throw OutOfMemory(describe_impossible_request(name_, request.bytes_requested, capacity));
}

void* CachingAllocator::hand_out(Block& block, const Request& request) {
  Ledger& ledger = ledger_of(request.cache);
  ledger.allocated(request.bytes_requested, block.bytes);
  ++ledger.blocks_through_heap;
  if (heap_.blocks_in_use().has_outgrown_tables()) [[unlikely]] {
    const ThreadCaches::Halt halt(caches_);
    heap_.drop_outgrown_tables();
  }
  return block.data();
}

// What threads keep whole is out of the heap's sight. Before the heap breaks a granule that some
// smaller hole could have spared, it gets to see it.
void* CachingAllocator::take_from_heap(const Request& request) {
  const MutexLock lock(mutex_);
  require_awake();
  if (void* data = take_handed_over(request)) return data;
  BlockHeap::Fit fit = heap_.find_fit(request.bytes, request.owner);
  const bool is_costly =
      fit.hole == nullptr || heap_.granules_needed(request.bytes) < fit.granules_broken;
  if (is_costly && flush(request.cache, request.owner)) {
    fit = heap_.find_fit(request.bytes, request.owner);
  }
  if (fit.hole == nullptr || wastes(*fit.hole, request)) return nullptr;
  return hand_out(heap_.take(fit, request.bytes, request.bytes_requested, request.owner), request);
}

bool CachingAllocator::wastes(const Block& hole, const Request& request) const {
  if (!slack_max_ || !hole.is_whole_segment()) return false;
  if (hole.bytes <= source_->shared_bytes()) return false;
  const std::size_t rest = hole.bytes - request.bytes;
  // Half of what is allowed lies in segments that are in use, the other half in those that are not.
  return static_cast<double>(rest) > static_cast<double>(request.bytes) * *slack_max_ / 2;
}

void* CachingAllocator::take_handed_over(const Request& request) {
  if (request.cache == nullptr || !hand_over_.fronts().keeps(request.owner)) return nullptr;
  FrontCache& front = request.cache->add_owner(request.owner);
  Block* const block = hand_over_.take(request.owner, request.bytes, front);
  if (block == nullptr) return nullptr;
  block->set_state(Block::State::allocated);
  block->set_bytes_requested(request.bytes_requested);
  request.cache->ledger().allocated(request.bytes_requested, block->bytes);
  return block->data();
}

bool CachingAllocator::flush(ThreadCache* cache, OwnerId owner) {
  const bool keeps = cache != nullptr && cache->fronts().keeps(owner);
  if (!keeps && !hand_over_.fronts().keeps(owner)) return false;
  if (keeps) cache->fronts().flush(owner, back_to_heap());
  hand_over_.fronts().flush(owner, back_to_heap());
  return true;
}

void* CachingAllocator::take_from_other_threads(const Request& request) {
  flush_caches();
  return take_from_heap(request);
}

void CachingAllocator::deallocate_through_heap(void* data) {
  if (data == nullptr || !origin_.is_here()) return;
  ThreadCache* const cache = caches_.mine_or_new();
  std::vector<UseLists::Use> uses;
  {
    const MutexLock lock(mutex_);
    Block& block = require_live(data, "free");
    if (cache != nullptr && !asleep_ && !is_retired(block.owner)) cache->add_owner(block.owner);
    const bool tidy_up = cache != nullptr && cache->has_gained_enough();
    Ledger& ledger = ledger_of(cache);
    ledger.freed(block.bytes_requested(), block.bytes);
    --ledger.blocks_through_heap;
    uses_.drop_if(block, [this](const UseLists::Use& use)
                             BERTH_UNDER_LOCK { return streams_.has_passed(use.stream, use.end); });
    uses = uses_.take(block);
    if (uses.empty()) {
      release(block);
    } else {
      settle(ledger);
      ++counters_.frees_deferred;
      raise_gauge(counters_.bytes_active, block.bytes);
      raise_gauge(demand_, block.bytes);
      heap_.set_pending(block);
      deferred_.add(block, uses);
      ++marking_;
    }
    if (tidy_up) {
      settle(ledger);
      if (cache->frees_for_others()) {
        hand_over_.take_over(*cache, back_to_heap());
      } else {
        cache->fronts().flush(back_to_heap());
      }
      cache->set_blocks_live(counters_.blocks_allocated.current);
    }
  }
  // Recorded here and not by whoever polls later: the caller may destroy the stream after this.
  for (const UseLists::Use& use : uses) {
    if (use.end.event == nullptr) seal(use.stream);
  }
  if (!uses.empty()) --marking_;
}

/// Back into the heap, open to all if its stream is gone for good.
void CachingAllocator::release(Block& block) {
  heap_.release(block, streams_.is_over(block.owner) ? kUnowned : block.owner);
}

void* CachingAllocator::reclaim_then_take(Request& request) {
  const MutexLock slow(slow_mutex_);
  reclaim_deferred();
  return take_from_heap(request);
}

void* CachingAllocator::grow_then_take(Request& request) {
  if (const std::size_t excess = budget_.whole_beyond_soft_max(request.bytes);
      excess > 0 && others_) {
    others_(excess, Waiting::no);
  }
  const MutexLock slow(slow_mutex_);
  return grow_until_taken(request);
}

void* CachingAllocator::release_then_grow(Request& request) {
  const MutexLock slow(slow_mutex_);
  if (void* data = open_then_grow(request, idle_now())) return data;
  // First as much as is missing, which leaves the rest cached; where that does not help, all.
  std::size_t missing = request.beyond_limit_bytes;
  {
    const MutexLock lock(mutex_);
    if (heap_.has_granules()) missing = 0;  // new ones are joined with those that there are
  }
  for (const std::size_t bytes : {missing > 0 ? missing : request.bytes, request.bytes,
                                  std::numeric_limits<std::size_t>::max()}) {
    if (give_back(bytes) == 0) break;
    if (void* data = grow_until_taken(request)) return data;
  }
  return take_from_heap(request);
}

void* CachingAllocator::take_from_other_pools(Request& request, Waiting waiting) {
  const bool is_own_limit = !budget_.has_own_room(1);
  if (!others_ || is_own_limit || (waiting != Waiting::no && is_captured(request))) return nullptr;
  if (others_(budget_.wanted_from_others(request.bytes), waiting) == 0) return nullptr;
  return grow_then_take(request);
}

void* CachingAllocator::take_behind_waits(Request& request) {
  if (cross_stream_reuse_ != CrossStreamReuse::behind_waits) return nullptr;
  if (!request.stream || is_captured(request)) return nullptr;
  const MutexLock slow(slow_mutex_);
  std::vector<OwnerId> owners;
  {
    const MutexLock lock(mutex_);
    owners = heap_.owners_with_free_blocks();
  }
  for (const OwnerId owner : owners) {
    if (owner == request.owner) continue;
    std::uint64_t serial = 0;
    {
      const MutexLock lock(mutex_);
      serial = heap_.serial();
    }
    const StreamTable::Entry other = find(owner).value();
    if (!can_be_observed(other)) continue;
    const SharedEvent event = other.retired ? other.last_work : record(other.stream);
    if (event != nullptr) request.stream->wait(event->ref());
    const MutexLock lock(mutex_);
    if (heap_.transfer(owner, request.owner, serial) > 0) ++counters_.stream_waits_inserted;
    count_blocks();
  }
  return grow_until_taken(request);  // what was taken over may lack a few granules
}

/// As long as it helps: a callback that only says so would be called for ever.
void* CachingAllocator::relieve_pressure_then_retry(Request& request) {
  if (!on_pressure_) return nullptr;
  for (;;) {
    const std::uint64_t frees_before = counters().frees;
    if (!on_pressure_(request.bytes)) return nullptr;
    if (void* data = take_from_heap(request)) return data;
    if (void* data = climb_to_growth(request)) return data;
    if (void* data = release_then_grow(request)) return data;
    if (void* data = take_from_other_pools(request, Waiting::no)) return data;
    if (counters().frees == frees_before) return nullptr;
  }
}

void* CachingAllocator::wait_for_pending_then_retry(Request& request) {
  if (is_captured(request)) return nullptr;
  for (;;) {
    {
      const MutexLock slow(slow_mutex_);
      if (!wait_for_oldest_deferred()) break;
    }
    if (void* data = climb_to_growth(request)) return data;
    if (void* data = release_then_grow(request)) return data;
  }
  {
    const MutexLock slow(slow_mutex_);
    if (void* data = open_then_grow(request, idle_after_wait())) return data;
  }
  return release_then_grow(request);
}

void CachingAllocator::fail(const Request& request) {
  std::size_t driver_free = 0;
  std::size_t driver_total = 0;
  if (request.stream) {
    const ContextScope scope(request.stream->context());
    driver_.try_mem_get_info(&driver_free, &driver_total);
  }
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  ++counters_.out_of_memory;
  throw OutOfMemory(describe_out_of_memory({.allocator = name_,
                                            .bytes_requested = request.bytes_requested,
                                            .counters = counters_,
                                            .reserved_bytes_max = budget_.max(),
                                            .largest_free_block_bytes = heap_.largest_free_bytes(),
                                            .driver_free_bytes = driver_free,
                                            .driver_total_bytes = driver_total}),
                    request.refused_by_driver ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

Block& CachingAllocator::require_live(void* data, const char* action) {
  Block* block = heap_.find(data);
  if (block == nullptr) {
    throw InvalidArgument(describe_foreign_pointer(name_, action, data, heap_.find_covering(data)));
  }
  return *block;
}

void CachingAllocator::count_blocks() const {
  counters_.frees = counters_.allocations - counters_.blocks_allocated.current;
  set_gauge(counters_.blocks_free, heap_.free_count() + blocks_cached_);
  std::size_t bytes_metadata = heap_.metadata_bytes();
  caches_.for_each([&](const ThreadCache& cache) { bytes_metadata += cache.bytes_metadata(); });
  set_gauge(counters_.bytes_metadata, bytes_metadata);
  set_gauge(counters_.blocks_pending, counters_.frees_deferred - counters_.frees_reclaimed);
  const auto cached =
      static_cast<std::int64_t>(counters_.bytes_reserved.current - counters_.bytes_active.current);
  cached_bytes_then_.store(static_cast<std::size_t>(std::max<std::int64_t>(cached, 0)),
                           std::memory_order_relaxed);
}

}  // namespace berth
