// SPDX-License-Identifier: Apache-2.0
// The core of the device allocator and the pinned allocator. A request that the thread's own
// ThreadCache can serve takes no lock. All others go down one ladder, a table of rungs. It composes
// a heap shared by threads (SharedHeap), the order between streams (StreamOrder) and the source of
// memory (Reserve).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "berth/cross_stream_reuse.hpp"
#include "berth/event_pool.hpp"
#include "berth/memory_pool.hpp"
#include "berth/memory_snapshot.hpp"
#include "berth/stream.hpp"

#include "base/fork.hpp"
#include "device/device_context.hpp"
#include "memory/found_block.hpp"
#include "memory/low_water.hpp"
#include "memory/memory_budget.hpp"
#include "memory/order/stream_order.hpp"
#include "memory/reserve.hpp"
#include "memory/shared_heap.hpp"

namespace berth {

/// Threads  Safe from any thread.
class CachingAllocator final : public StreamObserver {
 public:
  /// What of the GPU's work the host may wait for.
  enum class HostWait {
    no,
    for_streams,  ///< that before the frees of what is cached
    for_all,      ///< and that of other streams, which freed blocks await
  };
  /// Asks the other allocators of the same memory to give back `bytes`, or somewhat more; returns
  /// how much they did. Called without a lock.
  using ReclaimFromPeers = std::function<std::size_t(std::size_t bytes, HostWait wait)>;

  struct Options {
    std::string name;      ///< "cuda:0" or "pinned", in errors and snapshots
    MemoryBudget& budget;  ///< Reserve::Options, as the next
    std::size_t headroom_bytes = 0;
    CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;
    /// Nothing is given back before close(): graphs have the addresses.
    bool keeps_memory = false;
    /// A graph that is captured with a block of this allocator holds it (GraphHolds).
    bool graphs_hold = false;
    std::optional<double> slack_max = std::nullopt;  ///< Reserve::Options
    /// Other allocators of the same memory; null: there are none.
    ReclaimFromPeers others = nullptr;
    /// Called without a lock, with the bytes that are missing; may call this allocator.
    std::function<bool(std::size_t bytes_missing)> on_pressure = nullptr;
    /// The pool that serves a device's events.
    StreamOrder::Events events;
  };
  /// Makes the source, which may put address space into the heap.
  using MakeSource = std::function<std::unique_ptr<SegmentSource>(BlockHeap& heap)>;

  CachingAllocator(const Driver& driver, Options options, const MakeSource& make_source);
  /// Waits for deferred frees, then gives everything back. The devices must be done with live
  /// blocks.
  ~CachingAllocator() override;

  /// `stream` is what the block is ordered on; nullopt: nothing. Contract:
  /// DeviceAllocator::allocate.
  void* allocate(std::size_t bytes, StreamRef stream) {
    if (void* data = allocate_cached(bytes, stream)) [[likely]]
      return data;
    return allocate_slow(bytes, stream);
  }
  void* allocate(std::size_t bytes, std::nullopt_t) {
    if (void* data = allocate_cached(bytes, std::nullopt)) [[likely]]
      return data;
    return allocate_slow(bytes, std::nullopt);
  }
  /// In two steps: what the calling thread keeps itself, or null; and whatever else will do.
  void* allocate_cached(std::size_t bytes, StreamRef stream) {
    return take_cached(bytes, key_of(stream));
  }
  void* allocate_cached(std::size_t bytes, std::nullopt_t) { return take_cached(bytes, kNoStream); }
  void* allocate_slow(std::size_t bytes, std::optional<StreamRef> stream, bool may_wait = true);
  /// Contracts of these: Allocator.
  void deallocate(void* data) {
    if (!try_cache_free(data)) [[unlikely]]
      deallocate_slow(data);
  }
  /// In two steps: what the calling thread keeps from now on; false, and nothing is changed, for
  /// the rest, which goes through the heap.
  bool try_cache_free(void* data) {
    ThreadCache* const cache = heap_.my_cache();
    return cache != nullptr && cache->put(data, heap_.blocks_in_use());
  }
  void deallocate_slow(void* data) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  void record_stream(void* data, StreamRef stream);
  void record_use(void* data, StreamRef stream);
  /// Contract: PinnedAllocator. Only with Options::graphs_hold.
  void keep_for_graph(void* data, StreamRef stream);
  std::size_t trim(std::size_t bytes_to_keep);
  std::size_t release_unused(std::chrono::nanoseconds age, DemandHistory::Time now);
  /// Gives back `bytes` of cached memory or somewhat more, as far as there are so many: of what no
  /// work uses, or, waiting, of all that is free. Returns how many.
  std::size_t release_cached(std::size_t bytes, HostWait wait) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// The same of what no work uses, and nothing where another thread is at work on the lower rungs.
  std::size_t try_release_cached(std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Contract: Reserve::grow_ahead.
  using GrowAheadResult = Reserve::GrowAheadResult;
  GrowAheadResult grow_ahead(std::size_t bytes) {
    require_origin();
    return reserve_.grow_ahead(bytes);
  }
  /// What is free in the heap, beside what threads keep.
  [[nodiscard]] std::size_t free_bytes() const;
  /// What is reserved and not active, by all threads' count.
  [[nodiscard]] std::size_t cached_bytes() const;
  /// The same as of the last time that somebody looked.
  [[nodiscard]] std::size_t cached_bytes_estimate() const { return heap_.cached_bytes_estimate(); }
  /// Whether the calling thread has freed at least `bytes` more than it allocated since then.
  [[nodiscard]] bool has_freed(std::size_t bytes) const {
    ThreadCache* const cache = heap_.my_cache();
    return cache == nullptr || cache->has_freed(bytes);
  }
  /// Nothing is kept any more for those who have addresses, once the work of all streams is done.
  void close() BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Whether what is freed keeps its memory, for graphs.
  [[nodiscard]] bool keeps_memory() const { return heap_.keeps_memory; }
  /// Whether no block is live or pending, nothing is reserved, and no thread is at work on a free.
  [[nodiscard]] bool is_empty() const;

  /// Contracts of these: MemoryPool. Not while the device of `context` is being captured.
  std::size_t sleep(DeviceContext& context, SleepContent content);
  void wake(DeviceContext& context);
  [[nodiscard]] bool is_asleep() const;
  /// Contract: SegmentSource::grant_access().
  void grant_access(DeviceContext& user) { reserve_.grant_access(user); }
  void retire_stream(StreamRef stream) noexcept;
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override {
    retire_stream(StreamRef(context, stream));
  }

  struct Live {
    void* data;
    std::size_t bytes_requested;
  };
  /// The live block that covers `data`, and its size.
  [[nodiscard]] std::optional<Live> find_live(const void* data) const;
  /// The live block that covers `data`. Costs less than find_live(): no thread is stopped for it.
  /// In a forked child nothing is found.
  [[nodiscard]] FoundBlock look_up(const void* data) const;
  /// Whether `data` lies in memory of this allocator, in use or not.
  [[nodiscard]] bool owns(const void* data) const;

  /// False in a forked child, where every call fails or, where it must not, does nothing.
  [[nodiscard]] bool is_usable() const { return origin_.is_here(); }
  /// Errors  NotSupported: this is a forked child.
  void require_origin() const { origin_.require_here(name()); }
  [[nodiscard]] const std::string& name() const { return heap_.name; }

  [[nodiscard]] MemoryCounters counters() const BERTH_NO_THREAD_SAFETY_ANALYSIS;
  void reset_peaks();
  [[nodiscard]] MemorySnapshot snapshot() const;
  /// How often the heap was searched, ever.
  [[nodiscard]] std::uint64_t searches() const;
  void validate() const BERTH_NO_THREAD_SAFETY_ANALYSIS;

 private:
  // Clang does not know that order_ and reserve_ hold the locks of heap_: what calls them under one
  // is not analysed, and says itself which lock it wants.

  /// What a rung has done for the request, other than to serve it.
  enum class Outcome {
    nothing,
    perhaps,   ///< others may have
    progress,  ///< memory has come into the heap's sight, or room for it under the limits
  };
  using Step = Outcome (CachingAllocator::*)(Request& request);
  struct Rung {
    Step step;
    bool holds_slow_lock;
    bool waits = false;  ///< the host, for others than the driver
  };
  static const Rung kLadder[];

  static StreamKey key_of(StreamRef stream) { return reinterpret_cast<StreamKey>(stream.native()); }
  /// From what the calling thread keeps; null where that is not the thing.
  void* take_cached(std::size_t bytes, StreamKey stream) {
    ThreadCache* const cache = heap_.my_cache();
    return cache != nullptr ? cache->take(bytes, stream) : nullptr;
  }
  /// Whose memory serves the request: that of its stream, for which the thread gets a cache.
  /// Errors  InvalidArgument: asleep; std::bad_alloc. Nothing is changed.
  OwnerId owner_of(const Request& request) BERTH_REQUIRES(heap_.mutex);
  /// Whether a stream's free memory stays its own as long as memory is not short.
  [[nodiscard]] bool isolates_streams() const {
    return cross_stream_reuse_ == CrossStreamReuse::never;
  }

  // The ladder (caching_allocator_ladder.cpp).
  void* climb(Request& request) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Rung by rung, until one serves the request or makes room.
  Outcome climb_once(Request& request) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Best fit in the heap. Counts as served.
  bool take(Request& request) BERTH_EXCLUDES(heap_.mutex);
  bool take_in_lock(Request& request) BERTH_REQUIRES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome collect(Request& request) BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome apply_soft_limit(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome mark(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome reclaim(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  bool should_consolidate(const Request& request) BERTH_REQUIRES(heap_.mutex);
  void consolidate(const Request& request) noexcept
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome open_all_idle(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome open_all_idle_late(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome join(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome borrow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome wait_before_growth(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome grow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome open_idle(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome give_back(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome ask_other_pools(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome take_behind_waits(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome relieve_pressure(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_deferred(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_streams(Request& request)
      BERTH_EXCLUDES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome ask_other_pools_to_wait(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome recover_quarantined(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_changes(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome reclaim_from(Request& request, HostWait wait) BERTH_EXCLUDES(heap_.slow_mutex);
  /// What to do with idle memory where growing was refused.
  Outcome use_idle_memory(std::vector<Freed> idle, Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// By all threads' count. How often memory has come free, for some stream or for all, by all
  /// threads, ever: a request whose rungs find nothing may have been told so because others were
  /// faster.
  [[nodiscard]] std::uint64_t changes() BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  [[nodiscard]] std::uint64_t changes_in_lock() const BERTH_REQUIRES(heap_.mutex);
  /// Throws where all memory there may be would not do.
  void refuse_impossible(const Request& request) BERTH_EXCLUDES(heap_.mutex);
  [[noreturn]] void fail(const Request& request) BERTH_EXCLUDES(heap_.mutex);

  std::size_t release_idle_now(std::size_t bytes)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;

  // caching_allocator_inspect.cpp
  /// As a snapshot has it: none for a block that any stream may use.
  [[nodiscard]] std::optional<CUstream> public_stream(const Block& block) const
      BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] BlockInfo describe(const Block& block) const BERTH_REQUIRES(heap_.mutex);

  const ForkOrigin origin_;
  const Driver& driver_;
  const CrossStreamReuse cross_stream_reuse_;
  const ReclaimFromPeers others_;
  const std::function<bool(std::size_t)> on_pressure_;
  std::atomic<bool> is_closed_ = false;
  /// Threads that mark the uses of a block which they freed already.
  std::atomic<int> marking_ = 0;
  LowWater low_water_ BERTH_GUARDED_BY(heap_.mutex);
  mutable SharedHeap heap_;    ///< looking settles the counters
  mutable StreamOrder order_;  ///< likewise
  Reserve reserve_;
};

}  // namespace berth
