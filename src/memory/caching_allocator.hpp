// SPDX-License-Identifier: Apache-2.0
// The core of the device allocator and the pinned allocator. A request that the thread's own
// ThreadCache can serve takes no lock. All others take the rungs of one ladder, a table. The
// allocator composes a heap shared by threads (SharedHeap), the order between streams (StreamOrder)
// and the source of memory (Reserve).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/cross_stream_reuse.hpp"
#include "berth/event_pool.hpp"
#include "berth/memory_snapshot.hpp"
#include "berth/sleep_content.hpp"
#include "berth/stream.hpp"

#include "base/fork.hpp"
#include "device/device_context.hpp"
#include "memory/heap_checkpoint.hpp"
#include "memory/memory_budget.hpp"
#include "memory/order/stream_order.hpp"
#include "memory/reserve.hpp"
#include "memory/shared_heap.hpp"
#include "memory/step_detector.hpp"

namespace berth {

/// Threads  Safe from any thread.
class CachingAllocator final : public StreamObserver {
 public:
  /// Whether the host may wait for the GPU: for the work before the frees of cached blocks, and for
  /// the uses by other streams that deferred frees await.
  enum class HostWait { no, yes };
  /// Reclaims `bytes` or somewhat more from the other allocators of the same memory. Returns the
  /// number of bytes. Called without a lock.
  using ReclaimFromPeers = std::function<std::size_t(std::size_t bytes, HostWait wait)>;

  struct Options {
    std::string name;      ///< "cuda:0" or "pinned", in errors and snapshots
    MemoryBudget& budget;  ///< Reserve::Options, as headroom_bytes and slack_max
    std::size_t headroom_bytes = 0;
    CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;
    /// No memory is returned before close(), because graphs use the addresses.
    bool keeps_memory = false;
    /// Streams of all devices use it. A graph that is captured with a block holds the block
    /// (GraphHolds), and a device that fails holds back only blocks that its streams use.
    bool is_host_memory = false;
    std::optional<double> slack_max = std::nullopt;
    /// Other allocators of the same memory; null: there are none.
    ReclaimFromPeers others = nullptr;
    /// Called without a lock, with the number of missing bytes; may call this allocator.
    std::function<bool(std::size_t bytes_missing)> on_pressure = nullptr;
    /// The pool that serves a device's events.
    StreamOrder::Events events;
  };
  /// Creates the source, which may add address space to the heap.
  using MakeSource = std::function<std::unique_ptr<SegmentSource>(BlockHeap& heap)>;

  CachingAllocator(const Driver& driver, Options options, const MakeSource& make_source);
  /// Waits for deferred frees, then returns everything. The devices must be done with live blocks.
  ~CachingAllocator() override;

  /// The block is ordered on `stream`; nullopt: on no stream. Contract: DeviceAllocator::allocate.
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
  /// The same in two steps: from the calling thread's cache, or null; and by the ladder.
  void* allocate_cached(std::size_t bytes, StreamRef stream) {
    return take_cached(bytes, key_of(stream));
  }
  void* allocate_cached(std::size_t bytes, std::nullopt_t) { return take_cached(bytes, kNoStream); }
  [[gnu::noinline]] void* allocate_slow(std::size_t bytes, std::optional<StreamRef> stream,
                                        bool may_wait = true);
  /// Contracts: Allocator.
  void deallocate(void* data) {
    if (!try_cache_free(data)) [[unlikely]]
      deallocate_slow(data);
  }
  /// The same in two steps: into the calling thread's cache; and through the heap, if the first
  /// step returned false and changed nothing.
  bool try_cache_free(void* data) {
    ThreadCache* const cache = heap_.my_cache();
    return cache != nullptr && cache->put(data, heap_.blocks_in_use());
  }
  /// The same if `user` is the block's own stream.
  bool try_cache_free(void* data, StreamRef user) {
    ThreadCache* const cache = heap_.my_cache();
    return cache != nullptr && cache->put(data, heap_.blocks_in_use(), key_of(user));
  }
  [[gnu::noinline]] void deallocate_slow(void* data) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  void record_stream(void* data, StreamRef stream);
  void record_use(void* data, StreamRef stream);
  /// Contract: PinnedAllocator. Only with Options::is_host_memory.
  void keep_for_graph(void* data, StreamRef stream);
  std::size_t trim(std::size_t bytes_to_keep);
  std::size_t release_unused(std::chrono::nanoseconds age, DemandHistory::Time now);
  using Returned = Reserve::Returned;
  /// Returns up to `bytes` of cached memory, or somewhat more, to the driver: idle memory, or,
  /// after waiting, all free memory.
  Returned try_release(std::size_t bytes, HostWait wait) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// The same. Returns the number of bytes.
  std::size_t release_cached(std::size_t bytes, HostWait wait) {
    return try_release(bytes, wait).bytes;
  }
  /// The bytes, if they are `bytes` or more, or if the driver has refused nothing.
  /// Errors  DriverError.
  std::size_t require_returned(const Returned& returned, std::size_t bytes) const;
  /// The same for idle memory; nothing if another thread holds the slow lock.
  std::size_t try_release_cached(std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Contract: Reserve::grow_ahead.
  using GrowAheadResult = Reserve::GrowAheadResult;
  GrowAheadResult grow_ahead(std::size_t bytes) {
    require_origin();
    return reserve_.grow_ahead(bytes);
  }
  /// Free bytes of the heap, without the thread caches.
  [[nodiscard]] std::size_t free_bytes() const;
  /// Reserved bytes that are not active, with the changes of all threads.
  [[nodiscard]] std::size_t cached_bytes() const;
  /// The result of the last count, without a lock.
  [[nodiscard]] std::size_t cached_bytes_estimate() const { return heap_.cached_bytes_estimate(); }
  /// Whether the calling thread has since freed at least `bytes` more than it allocated.
  [[nodiscard]] bool has_freed(std::size_t bytes) const {
    ThreadCache* const cache = heap_.my_cache();
    return cache == nullptr || cache->has_freed(bytes);
  }
  /// Waits for the work of all streams; memory is no longer kept for graphs.
  void close() BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Whether freed memory is kept for graphs.
  [[nodiscard]] bool keeps_memory() const { return heap_.keeps_memory; }
  /// Whether no block is live or pending, nothing is reserved, and no free is in progress.
  [[nodiscard]] bool is_empty() const;

  /// Contracts of these: MemoryPool. Not while the device of `context` is being captured.
  std::size_t sleep(DeviceContext& context, SleepContent content);
  /// The steps of sleep(): Reserve.
  [[nodiscard]] std::optional<Reserve::Sleep> begin_sleep(DeviceContext& context,
                                                          SleepContent content);
  Returned finish_sleep(const Reserve::Sleep& begun) { return reserve_.finish_sleep(begun); }
  /// Errors  DriverError: the driver has refused a part of what finish_sleep() returns.
  void require_asleep(const Returned& returned) const;
  void cancel_sleep(const Reserve::Sleep& begun) noexcept { reserve_.cancel_sleep(begun.number); }
  void wake(DeviceContext& context);
  [[nodiscard]] bool is_asleep() const;
  /// Contract: SegmentSource::grant_access().
  void grant_access(DeviceContext& user) { reserve_.grant_access(user); }
  void retire_stream(StreamRef stream) noexcept;
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override {
    retire_stream(StreamRef(context, stream));
  }

  /// Contracts: MemoryPool. Only with Options::keeps_memory.
  [[nodiscard]] HeapCheckpoint checkpoint() const BERTH_NO_THREAD_SAFETY_ANALYSIS;
  struct Restored {
    std::vector<void*> freed;
    std::vector<void*> allocated;
    std::vector<void*> kept;
  };
  Restored restore(const HeapCheckpoint& to) BERTH_NO_THREAD_SAFETY_ANALYSIS;

  struct Live {
    void* data;
    std::size_t bytes_requested;
  };
  /// The live block that covers `data`, and its size.
  [[nodiscard]] std::optional<Live> find_live(const void* data) const;
  /// The same without exclusive access to thread caches, which is cheaper. Finds nothing in a
  /// forked child.
  [[nodiscard]] FoundBlock look_up(const void* data) const;
  /// Whether `data` lies in memory of this allocator, in use or not.
  [[nodiscard]] bool owns(const void* data) const;

  /// False in a forked child, in which calls throw, or have no effect if they cannot throw.
  [[nodiscard]] bool is_usable() const { return origin_.is_here(); }
  /// Errors  NotSupported: this is a forked child.
  void require_origin() const { origin_.require_here(name()); }
  [[nodiscard]] const std::string& name() const { return heap_.name; }

  [[nodiscard]] MemoryCounters counters() const BERTH_NO_THREAD_SAFETY_ANALYSIS;
  void reset_peaks();
  [[nodiscard]] MemorySnapshot snapshot() const;
  /// The number of searches of the heap so far.
  [[nodiscard]] std::uint64_t searches() const;
  void validate() const BERTH_NO_THREAD_SAFETY_ANALYSIS;

 private:
  // Clang does not know that order_ and reserve_ use the locks of heap_. Functions that call them
  // under a lock are not analyzed; they state the lock that they need.

  /// The result of a rung that has not served the request.
  enum class Outcome {
    nothing,
    perhaps,   ///< another thread may have made progress
    progress,  ///< the heap has more free memory, or room under the limits
  };
  /// Returns when no graph holds a block, or some time later.
  void await_graphs() noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS;
  using Step = Outcome (CachingAllocator::*)(Request& request);
  struct Rung {
    Step step;
    bool holds_slow_lock;
    bool waits = false;  ///< the host may wait for work, other threads or the program
  };
  static const Rung kLadder[];

  static StreamKey key_of(StreamRef stream) { return reinterpret_cast<StreamKey>(stream.native()); }
  /// A block of the calling thread's cache; null if none fits.
  void* take_cached(std::size_t bytes, StreamKey stream) {
    ThreadCache* const cache = heap_.my_cache();
    return cache != nullptr ? cache->take(bytes, stream) : nullptr;
  }
  /// The owner id of the request's stream, for which the thread gets a cache.
  /// Errors  InvalidArgument: asleep; std::bad_alloc. Nothing is changed.
  OwnerId owner_of(const Request& request) BERTH_REQUIRES(heap_.mutex);
  /// Whether a stream keeps its free memory to itself while memory is not short.
  [[nodiscard]] bool isolates_streams() const {
    return cross_stream_reuse_ == CrossStreamReuse::never;
  }

  // The ladder (caching_allocator_ladder.cpp).
  void* descend(Request& request) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// One pass: rung by rung, until one serves the request or makes progress.
  Outcome descend_once(Request& request) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Best fit in the heap.
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
  Outcome disown_all_idle(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome disown_all_idle_late(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome stitch(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome borrow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome wait_before_growth(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome grow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome disown_idle(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome give_back(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome reclaim_from_pools(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome take_behind_waits(Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome relieve_pressure(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_deferred(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_streams(Request& request)
      BERTH_EXCLUDES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Outcome reclaim_from_pools_after_wait(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome recover_quarantined(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome wait_for_changes(Request& request) BERTH_EXCLUDES(heap_.slow_mutex);
  Outcome reclaim_from(Request& request, HostWait wait) BERTH_EXCLUDES(heap_.slow_mutex);
  /// Disowns or returns idle memory after growth failed.
  Outcome use_idle_memory(std::vector<Freed> idle, Request& request)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Counts the events that freed memory, for one stream or for all, on all threads. If the number
  /// changed during a pass that found nothing, another thread may have taken the memory.
  [[nodiscard]] std::uint64_t changes() BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  [[nodiscard]] std::uint64_t changes_in_lock() const BERTH_REQUIRES(heap_.mutex);
  /// Whether only memory that is reserved beyond a lowered limit can serve the request: growth
  /// cannot, so that no memory is returned for it.
  [[nodiscard]] bool exceeds_limit(const Request& request) const {
    return request.bytes > reserve_.capacity_bytes();
  }
  /// Throws if the request would not fit even if all memory were free.
  void refuse_impossible(const Request& request) BERTH_EXCLUDES(heap_.mutex);
  [[noreturn]] void refuse_more(const char* state, const Returned& returned) const;
  [[noreturn]] void fail(const Request& request) BERTH_EXCLUDES(heap_.mutex);
  /// `bytes`: those that are asleep.
  [[noreturn]] void fail_to_wake(DeviceContext& context, std::size_t bytes);

  Returned release_idle_now(std::size_t bytes)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Waits for the streams with free memory first.
  Returned release_once_idle(std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  Returned release_idle(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;

  // caching_allocator_restore.cpp
  struct RestorePlan;
  /// With exclusive access to the caches.
  [[nodiscard]] HeapCheckpoint live_blocks() const BERTH_REQUIRES(heap_.mutex);
  /// Errors  InvalidArgument: other streams or graphs use the block.
  void require_unused(const HeapCheckpoint::Live& live) const
      BERTH_REQUIRES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Counts the pieces of the block's memory, which is free once the plan's blocks have ended.
  /// Errors  InvalidArgument: the block cannot begin where it was.
  void require_restorable(const HeapCheckpoint& to, const HeapCheckpoint::Live& live,
                          RestorePlan& plan)
      BERTH_REQUIRES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Allocates a block where it was. `parts` has room for its parts.
  Block& begin_again(const HeapCheckpoint& to, const HeapCheckpoint::Live& live,
                     std::vector<Block*>& parts) BERTH_REQUIRES(heap_.mutex);

  // caching_allocator_inspect.cpp
  /// The stream of a block in a snapshot; none for a block that any stream may use.
  [[nodiscard]] std::optional<CUstream> public_stream(const Block& block) const
      BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] BlockInfo describe(const Block& block) const BERTH_REQUIRES(heap_.mutex);

  const ForkOrigin origin_;
  const Driver& driver_;
  const CrossStreamReuse cross_stream_reuse_;
  const ReclaimFromPeers others_;
  const std::function<bool(std::size_t)> on_pressure_;
  std::atomic<bool> is_closed_ = false;
  /// Number of threads that are recording the events of a deferred free.
  std::atomic<int> marking_ = 0;
  StepDetector step_detector_ BERTH_GUARDED_BY(heap_.mutex);
  mutable SharedHeap heap_;    ///< reading applies the ledgers of the threads
  mutable StreamOrder order_;  ///< likewise
  Reserve reserve_;
};

}  // namespace berth
