// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_heap.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "memory/memory_errors.hpp"

namespace berth {

SharedHeap::SharedHeap(std::string name_)
    : name(std::move(name_)),
      blocks_in_use_(blocks.blocks_in_use()),
      caches_(mutex, [this](ThreadCache& cache) BERTH_UNDER_LOCK {
        apply(cache.ledger());
        cache.fronts().flush(back_to_heap());
      }) {}

Block& SharedHeap::require_live(void* data, const char* action) {
  Block* const block = blocks.find(data);
  if (block == nullptr) {
    throw InvalidArgument(describe_foreign_pointer(name, action, data, blocks.find_covering(data)));
  }
  BERTH_CHECK(block->state() == Block::State::allocated && block->data() == data);
  return *block;
}

void SharedHeap::refuse_asleep() const {
  throw InvalidArgument(name + " is asleep; accepted: wake() it first");
}

void SharedHeap::hand_out(Block& block, Request& request) {
  BERTH_CHECK(block.state() == Block::State::allocated && request.data == nullptr);
  BERTH_CHECK(block.owner == request.owner && block.bytes == request.bytes);
  Ledger& ledger = ledger_of(request.cache);
  ledger.allocated(request.bytes_requested, block.bytes);
  ++ledger.blocks_through_heap;
  if (blocks.blocks_in_use().has_outgrown_tables()) [[unlikely]] {
    const ThreadCaches::ExclusiveAccess exclusive(caches_);
    blocks.drop_outgrown_tables();
  }
  request.data = block.data();
}

bool SharedHeap::take_transferred(Request& request) {
  if (request.cache == nullptr || !transfer_cache_.fronts().keeps(request.owner)) return false;
  FrontCache& front = request.cache->add_owner(request.owner);
  Block* const block = transfer_cache_.take(request.owner, request.bytes, front);
  if (block == nullptr) return false;
  BERTH_CHECK(block->state() == Block::State::cached && block->bytes == request.bytes);
  block->set_state(Block::State::allocated);
  block->set_bytes_requested(request.bytes_requested);
  Ledger& ledger = request.cache->ledger();
  ledger.allocated(request.bytes_requested, block->bytes);
  ++ledger.allocations_thread_cached;
  request.data = block->data();
  return true;
}

void SharedHeap::release(Block& block) {
  blocks.release(block, owner_once_free(block.owner));
}

void SharedHeap::enable_caching(ThreadCache& cache, OwnerId owner) noexcept {
  if (is_asleep || (owner != kUnowned && streams.entry(owner).retired)) return;
  try {
    cache.add_owner(owner);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then the heap has it back
  }
}

bool SharedHeap::collect(ThreadCache* cache, OwnerId owner) {
  const OwnerId to = owner_once_free(owner);
  const auto back = [&](Block& block) BERTH_UNDER_LOCK {
    --blocks_cached_;
    blocks.release(block, to);
  };
  const bool kept = cache != nullptr && cache->fronts().flush(owner, back);
  return transfer_cache_.fronts().flush(owner, back) || kept;
}

std::size_t SharedHeap::collect_all() {
  return collect_all(ThreadCaches::ExclusiveAccess(caches_));
}

std::size_t SharedHeap::collect_all(const ThreadCaches::ExclusiveAccess& exclusive) {
  apply_ledgers(exclusive);
  const std::size_t kept = blocks_cached_;
  exclusive.for_each([&](ThreadCache& cache) { cache.fronts().flush(back_to_heap()); });
  transfer_cache_.fronts().flush(back_to_heap());
  BERTH_CHECK(blocks_cached_ == 0);
  count_blocks();
  return kept;
}

void SharedHeap::drop_caches() {
  const ThreadCaches::ExclusiveAccess exclusive(caches_);
  apply_ledgers(exclusive);
  exclusive.for_each([&](ThreadCache& cache) { cache.drop_all(back_to_heap()); });
  transfer_cache_.fronts().flush(back_to_heap());
  BERTH_CHECK(blocks_cached_ == 0);
  count_blocks();
}

void SharedHeap::drop_caches_of(OwnerId owner) {
  const ThreadCaches::ExclusiveAccess exclusive(caches_);
  apply_ledgers(exclusive);
  exclusive.for_each([&](ThreadCache& cache) { cache.drop(owner, back_to_heap()); });
  transfer_cache_.fronts().drop(owner, back_to_heap());
}

void SharedHeap::flush_cache(ThreadCache& cache) {
  apply(cache.ledger());
  if (cache.frees_more_than_allocates()) {
    transfer_cache_.take_over(cache, back_to_heap());
  } else {
    cache.fronts().flush(back_to_heap());
  }
  cache.set_blocks_live(counters.blocks_allocated.current);
}

void SharedHeap::apply(Ledger& ledger) {
  // Blocks that a thread allocated or freed without the heap came from its cache or went into it.
  blocks_cached_ += static_cast<std::size_t>(std::exchange(ledger.blocks_through_heap, 0) -
                                             ledger.blocks_allocated.change());
  ledger.blocks_net += ledger.blocks_allocated.change();
  counters.allocations += std::exchange(ledger.allocations, 0);
  counters.allocations_thread_cached += std::exchange(ledger.allocations_thread_cached, 0);
  apply_bytes(ledger);
  ledger.bytes_requested.apply_to(counters.bytes_requested);
  ledger.blocks_allocated.apply_to(counters.blocks_allocated);
}

void SharedHeap::apply_bytes(Ledger& ledger) {
  GaugeChange active = ledger.bytes_allocated;  // pending blocks do not change here
  GaugeChange wanted = active;
  active.apply_to(counters.bytes_active);
  wanted.apply_to(demand);
  ledger.bytes_allocated.apply_to(counters.bytes_allocated);
}

void SharedHeap::apply_ledgers(const ThreadCaches::ExclusiveAccess& exclusive) {
  apply(ledger_without_cache_);
  exclusive.for_each([this](ThreadCache& cache) BERTH_UNDER_LOCK { apply(cache.ledger()); });
  count_blocks();
  exclusive.for_each([this](ThreadCache& cache) BERTH_UNDER_LOCK {
    cache.set_blocks_live(counters.blocks_allocated.current);
  });
}

void SharedHeap::count_blocks() {
  counters.frees = counters.allocations - counters.blocks_allocated.current;
  counters.allocations_last_freed = counters.allocations - counters.allocations_thread_cached -
                                    counters.allocations_fitted - counters.allocations_stitched -
                                    counters.allocations_grown;
  set_gauge(counters.blocks_free, blocks.free_count() + blocks_cached_);
  std::size_t bytes_metadata = blocks.metadata_bytes();
  caches_.for_each([&](const ThreadCache& cache) { bytes_metadata += cache.bytes_metadata(); });
  set_gauge(counters.bytes_metadata, bytes_metadata);
  set_gauge(counters.blocks_pending, counters.frees_deferred - counters.frees_reclaimed);
  const auto cached =
      static_cast<std::int64_t>(counters.bytes_reserved.current - counters.bytes_active.current);
  cached_bytes_estimate_.store(static_cast<std::size_t>(std::max<std::int64_t>(cached, 0)),
                               std::memory_order_relaxed);
}

}  // namespace berth
