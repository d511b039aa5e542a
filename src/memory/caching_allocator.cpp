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

namespace berth {

CachingAllocator::CachingAllocator(const Driver& driver, Options options,
                                   const MakeSource& make_source)
    : driver_(driver),
      name_(std::move(options.name)),
      on_pressure_(std::move(options.on_pressure)),
      events_(std::move(options.events)),
      reserved_bytes_max_(options.reserved_bytes_max),
      source_(make_source(heap_)) {}

CachingAllocator::~CachingAllocator() {
  try {
    const MutexLock slow(slow_mutex_);
    while (wait_for_oldest_deferred()) continue;
  } catch (const std::exception& error) {
    driver_.report(Severity::error, name_ + ": " + error.what());
  }
  source_->give_back_all(heap_);
}

void CachingAllocator::set_reserved_bytes_max(std::optional<std::size_t> bytes) {
  const MutexLock lock(mutex_);
  reserved_bytes_max_ = bytes;
}

// Every rung searches again, because the rung before it, or another thread, may have made room.
void* CachingAllocator::allocate(std::size_t bytes, std::optional<StreamRef> stream) {
  if (bytes == 0) return nullptr;
  Request request = make_request(bytes, stream);
  if (void* data = take_cached(request)) return data;
  if (void* data = climb_to_growth(request)) return data;
  if (void* data = release_then_grow(request)) return data;
  if (void* data = take_behind_waits(request)) return data;
  if (void* data = relieve_pressure_then_retry(request)) return data;
  if (void* data = wait_for_pending_then_retry(request)) return data;
  fail(request);
}

void* CachingAllocator::climb_to_growth(Request& request) {
  if (void* data = reclaim_then_take(request)) return data;
  if (void* data = take_from_idle_streams(request)) return data;
  return grow_then_take(request);
}

CachingAllocator::Request CachingAllocator::make_request(std::size_t bytes,
                                                         std::optional<StreamRef> stream) {
  const MutexLock lock(mutex_);
  const std::size_t capacity =
      std::min(source_->capacity_bytes(), reserved_bytes_max_.value_or(~std::size_t{0}));
  if (bytes > capacity) {
    ++counters_.out_of_memory;
    if (bytes <= source_->capacity_bytes()) ++counters_.limit_rejections;
    throw OutOfMemory(describe_impossible_request(name_, bytes, capacity));
  }
  return {align_up(bytes, kBlockBytes), bytes, stream ? streams_.id_of(*stream) : kUnowned, stream};
}

void* CachingAllocator::take_cached(const Request& request) {
  const MutexLock lock(mutex_);
  Block* block = heap_.take(request.bytes, request.bytes_requested, request.owner);
  if (block == nullptr) return nullptr;
  raise_gauge(counters_.bytes_requested, block->bytes_requested);
  raise_gauge(counters_.bytes_allocated, block->bytes);
  raise_gauge(counters_.bytes_active, block->bytes);
  ++counters_.allocations;
  count_blocks();
  return block->data();
}

void CachingAllocator::deallocate(void* data) {
  if (data == nullptr) return;
  std::vector<OwnerId> to_seal;
  {
    const MutexLock lock(mutex_);
    Block& block = require_live(data, "free");
    ++counters_.frees;
    lower_gauge(counters_.bytes_requested, block.bytes_requested);
    lower_gauge(counters_.bytes_allocated, block.bytes);
    const auto over = [&](OwnerId use) BERTH_REQUIRES(mutex_) { return streams_.is_over(use); };
    block.uses.erase(std::remove_if(block.uses.begin(), block.uses.end(), over), block.uses.end());
    if (block.uses.empty()) {
      release(block);
    } else {
      ++counters_.frees_deferred;
      to_seal = block.uses;
      heap_.set_pending(block);
      deferred_.add(block);
    }
    count_blocks();
  }
  // Recorded here and not by whoever polls later: the caller may destroy the stream after this.
  for (const OwnerId stream : to_seal) seal(stream);
}

/// The end of a block's use: back into the heap, open to all if its stream is gone for good.
void CachingAllocator::release(Block& block) {
  lower_gauge(counters_.bytes_active, block.bytes);
  heap_.release(block, streams_.is_over(block.owner) ? kUnowned : block.owner);
}

void CachingAllocator::record_stream(void* data, StreamRef stream) {
  if (data == nullptr) return;
  const MutexLock lock(mutex_);
  Block& block = require_live(data, "record a stream on");
  const OwnerId use = streams_.id_of(stream);
  const bool known = std::find(block.uses.begin(), block.uses.end(), use) != block.uses.end();
  if (use != block.owner && !known) block.uses.push_back(use);
}

void* CachingAllocator::reclaim_then_take(Request& request) {
  const MutexLock slow(slow_mutex_);
  reclaim_deferred();
  return take_cached(request);
}

void* CachingAllocator::take_from_idle_streams(Request& request) {
  const MutexLock slow(slow_mutex_);
  {
    const MutexLock lock(mutex_);
    if (heap_.free_bytes() < request.bytes) return nullptr;  // spares the driver the questions
  }
  disown_idle();
  return take_cached(request);
}

void* CachingAllocator::grow_then_take(Request& request) {
  const MutexLock slow(slow_mutex_);
  return grow_until_taken(request);
}

void* CachingAllocator::release_then_grow(Request& request) {
  const MutexLock slow(slow_mutex_);
  disown_idle();
  // First as much as is missing, which leaves the rest cached; where that does not help, all.
  for (const std::size_t bytes : {request.bytes, std::numeric_limits<std::size_t>::max()}) {
    if (give_back(bytes) == 0) break;
    if (void* data = grow_until_taken(request)) return data;
  }
  return take_cached(request);
}

void* CachingAllocator::take_behind_waits(Request& request) {
  if (!request.stream) return nullptr;
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
    const StreamTable::Entry other = entry(owner);
    const SharedEvent event = other.retired ? other.last_work : record(other.stream);
    if (event != nullptr) request.stream->wait(event->ref());
    const MutexLock lock(mutex_);
    if (heap_.transfer(owner, request.owner, serial) > 0) ++counters_.stream_waits_inserted;
    count_blocks();
  }
  return grow_until_taken(request);  // what was taken over may lack a few granules
}

void* CachingAllocator::relieve_pressure_then_retry(Request& request) {
  if (!on_pressure_ || !on_pressure_(request.bytes)) return nullptr;
  if (void* data = take_cached(request)) return data;
  if (void* data = climb_to_growth(request)) return data;
  return release_then_grow(request);
}

void* CachingAllocator::wait_for_pending_then_retry(Request& request) {
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
    disown_all_after_wait();
    if (void* data = grow_until_taken(request)) return data;
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
  ++counters_.out_of_memory;
  throw OutOfMemory(describe_out_of_memory({.allocator = name_,
                                            .bytes_requested = request.bytes_requested,
                                            .counters = counters_,
                                            .reserved_bytes_max = reserved_bytes_max_,
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

void CachingAllocator::count_blocks() {
  set_gauge(counters_.blocks_allocated, heap_.allocated_count());
  set_gauge(counters_.blocks_free, heap_.free_count());
  set_gauge(counters_.blocks_pending, counters_.frees_deferred - counters_.frees_reclaimed);
}

}  // namespace berth
