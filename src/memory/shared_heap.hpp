// SPDX-License-Identifier: Apache-2.0
// A block heap shared by threads: its locks, the caches of threads in front of it, the streams that
// order its blocks, and its counters. The other parts of a caching allocator all use it.
//
// `mutex` guards the state and is never held during a driver call or a callback. `slow_mutex` lets
// one thread at a time call the driver for the heap: grow it, shrink it, query streams. The host
// holds neither while it waits for the GPU. Lock order: slow_mutex, then mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "berth/memory_counters.hpp"

#include "base/mutex.hpp"
#include "heap/block_heap.hpp"
#include "memory/gauge.hpp"
#include "memory/order/stream_table.hpp"
#include "memory/request.hpp"
#include "memory/thread/thread_cache.hpp"
#include "memory/thread/transfer_cache.hpp"

namespace berth {

/// Threads  State is guarded by `mutex`. Members without a lock annotation: any thread.
class SharedHeap {
 public:
  /// `name`: of the allocator, "cuda:0" or "pinned".
  explicit SharedHeap(std::string name);
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  const std::string name;

  Mutex slow_mutex;
  Mutex mutex;
  BlockHeap blocks BERTH_GUARDED_BY(mutex);
  /// The streams that order blocks or use them.
  StreamTable streams BERTH_GUARDED_BY(mutex);
  // Up to date once the threads' ledgers have been applied.
  MemoryCounters counters BERTH_GUARDED_BY(mutex);
  /// bytes_active since the peak was last reset.
  Gauge demand BERTH_GUARDED_BY(mutex);
  /// The highest peak of bytes_allocated before a reset.
  std::uint64_t bytes_allocated_most BERTH_GUARDED_BY(mutex) = 0;
  bool is_asleep BERTH_GUARDED_BY(mutex) = false;
  /// No memory is returned, because graphs use the addresses.
  std::atomic<bool> keeps_memory = false;

  // From any thread, without a lock.
  [[nodiscard]] ThreadCache* my_cache() const { return caches_.local(); }
  ThreadCache* my_cache_or_new() { return caches_.local_or_new(); }
  /// The heap's blocks, for lookups by the threads that own them.
  [[nodiscard]] const PointerMap& blocks_in_use() const { return blocks_in_use_; }
  /// bytes_reserved - bytes_active as of the last count.
  [[nodiscard]] std::size_t cached_bytes_estimate() const {
    return cached_bytes_estimate_.load(std::memory_order_relaxed);
  }

  /// The live block at `data`.
  /// Errors  InvalidArgument: `data` is not a live block; the message describes it.
  Block& require_live(void* data, const char* action) BERTH_REQUIRES(mutex);
  /// Errors  InvalidArgument: asleep.
  void require_awake() const BERTH_REQUIRES(mutex) {
    if (is_asleep) [[unlikely]]
      refuse_asleep();
  }

  // Allocation and free.

  /// Serves the request with `block`, and counts it.
  void hand_out(Block& block, Request& request) BERTH_REQUIRES(mutex);
  /// Serves the request with a block of its size that another thread freed; false if there is none.
  bool take_transferred(Request& request) BERTH_REQUIRES(mutex);
  /// The owner of a block of `owner` after its free: kUnowned if the stream is drained.
  [[nodiscard]] OwnerId owner_once_free(OwnerId owner) const BERTH_REQUIRES(mutex) {
    return streams.is_drained(owner) ? kUnowned : owner;
  }
  /// allocated, cached or pending -> free. Never throws.
  void release(Block& block) BERTH_REQUIRES(mutex);

  // The heap cannot use blocks in thread caches until they are collected.

  /// Lets a thread cache freed blocks of `owner`, if host memory can be allocated.
  void enable_caching(ThreadCache& cache, OwnerId owner) noexcept BERTH_REQUIRES(mutex);

  /// Returns the calling thread's cached blocks of `owner`, and those of the transfer cache, to the
  /// heap. False if there is none.
  bool collect(ThreadCache* cache, OwnerId owner) BERTH_REQUIRES(mutex);
  /// The same for all threads and owners. Returns the number of blocks.
  std::size_t collect_all() BERTH_REQUIRES(mutex);
  /// The same, and disables thread caches until they are enabled again.
  void drop_caches() BERTH_REQUIRES(mutex);
  /// The same for blocks of `owner`, which is being removed.
  void drop_caches_of(OwnerId owner) BERTH_REQUIRES(mutex);
  /// Moves a thread's cached blocks to the transfer cache if the thread frees more than it
  /// allocates, otherwise to the heap.
  void flush_cache(ThreadCache& cache) BERTH_REQUIRES(mutex);

  // Counting.

  Ledger& ledger_of(ThreadCache* cache) BERTH_REQUIRES(mutex) {
    return cache != nullptr ? cache->ledger() : ledger_without_cache_;
  }
  /// Adds the changes of a thread to the counters.
  void apply(Ledger& ledger) BERTH_REQUIRES(mutex);
  /// The same for the bytes allocated and active. Before a gauge of these is changed for a block
  /// that the thread has just allocated or freed: the peak would otherwise count the block twice.
  void apply_bytes(Ledger& ledger) BERTH_REQUIRES(mutex);
  /// The same for all threads, with exclusive access to their caches.
  void apply_ledgers() BERTH_REQUIRES(mutex) {
    apply_ledgers(ThreadCaches::ExclusiveAccess(caches_));
  }
  /// Updates the counters that are derived from others.
  void count_blocks() BERTH_REQUIRES(mutex);
  /// Blocks that threads cache, as of the last count.
  [[nodiscard]] std::size_t blocks_cached() const BERTH_REQUIRES(mutex) { return blocks_cached_; }

  /// Exclusive access to all thread caches, with counters up to date. Under `mutex`.
  class ConsistentView {
   public:
    enum class Caches {
      kept,
      emptied,  ///< no block is cached: each is live, pending or free
    };
    explicit ConsistentView(SharedHeap& heap,
                            Caches caches = Caches::kept) BERTH_NO_THREAD_SAFETY_ANALYSIS
        : exclusive_(heap.caches_) {
      if (caches == Caches::emptied) {
        heap.collect_all(exclusive_);
      } else {
        heap.apply_ledgers(exclusive_);
      }
    }

   private:
    const ThreadCaches::ExclusiveAccess exclusive_;
  };

 private:
  [[noreturn]] void refuse_asleep() const;
  void apply_ledgers(const ThreadCaches::ExclusiveAccess& exclusive) BERTH_REQUIRES(mutex);
  std::size_t collect_all(const ThreadCaches::ExclusiveAccess& exclusive) BERTH_REQUIRES(mutex);
  /// Returns blocks of a FrontCache to the heap.
  [[nodiscard]] auto back_to_heap() {
    return [this](Block& block) BERTH_UNDER_LOCK {
      --blocks_cached_;
      release(block);
    };
  }

  /// The map of the heap, for lookups without the lock.
  const PointerMap& blocks_in_use_;
  TransferCache transfer_cache_ BERTH_GUARDED_BY(mutex);
  Ledger ledger_without_cache_ BERTH_GUARDED_BY(mutex);
  std::size_t blocks_cached_ BERTH_GUARDED_BY(mutex) = 0;
  std::atomic<std::size_t> cached_bytes_estimate_ = 0;
  ThreadCaches caches_;
};

}  // namespace berth
