// SPDX-License-Identifier: Apache-2.0
// The machine behind the device allocator and the pinned allocator: a block heap, deferred frees
// and a segment source, put in order by one ladder.
//
// What a thread finds in its own ThreadCache it gets without any lock. For the rest there are two.
// `mutex_` guards the state and is never held during a driver call or a callback. `slow_mutex_` lets
// one thread at a time poll, grow or shrink, which the driver would serialise anyway; it is held
// during driver calls, and only the lower rungs want it. Order: slow_mutex_, then mutex_.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "berth/cross_stream_reuse.hpp"
#include "berth/event_pool.hpp"
#include "berth/memory_pool.hpp"
#include "berth/memory_snapshot.hpp"
#include "berth/stream.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"
#include "memory/demand_history.hpp"
#include "memory/heap/block_heap.hpp"
#include "memory/host_copy.hpp"
#include "memory/memory_budget.hpp"
#include "memory/order/deferred_frees.hpp"
#include "memory/order/stream_table.hpp"
#include "memory/order/use_lists.hpp"
#include "memory/source/segment_source.hpp"
#include "memory/thread/hand_over.hpp"
#include "memory/thread/thread_caches.hpp"

namespace berth {

/// Threads  Safe from any thread.
class CachingAllocator final : public StreamObserver {
 public:
  /// What of the GPU's work the host may wait for.
  enum class Waiting {
    no,
    for_streams,  ///< that before the frees of what is cached
    for_all,      ///< and that of other streams, which freed blocks await
  };
  /// Asks the other allocators of the same memory to give back `bytes`, or somewhat more; returns how
  /// much they did. Called without a lock.
  using Relief = std::function<std::size_t(std::size_t bytes, Waiting waiting)>;

  struct Options {
    std::string name;  ///< "cuda:0" or "pinned", in errors and snapshots
    /// What may be reserved; must outlive the allocator.
    MemoryBudget& budget;
    /// What growing leaves to others, by the driver's count; 0: it is not asked.
    std::size_t headroom_bytes = 0;
    CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;
    /// Nothing is given back before close(): graphs have the addresses.
    bool keeps_memory = false;
    /// How much may be reserved beyond the most that was ever active before growing gives whole idle
    /// memory back first, as a part of it; nullopt: no matter how much. Segments that are not shared
    /// are then taken whole or not at all.
    std::optional<double> slack_max = std::nullopt;
    /// Other allocators of the same memory; null: there are none.
    Relief others = nullptr;
    std::function<bool(std::size_t bytes_needed)> on_pressure = nullptr;
    /// The pool that serves a device's events.
    std::function<EventPool&(DeviceContext&)> events;
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
    if (void* data = allocate_last(bytes, stream)) [[likely]]
      return data;
    return allocate_other(bytes, stream);
  }
  void* allocate(std::size_t bytes, std::nullopt_t) {
    if (void* data = allocate_last(bytes, std::nullopt)) [[likely]]
      return data;
    return allocate_other(bytes, std::nullopt);
  }
  /// In two steps: what the calling thread freed last, or null; and whatever else will do.
  void* allocate_last(std::size_t bytes, StreamRef stream) {
    return take_last(bytes, key_of(stream));
  }
  void* allocate_last(std::size_t bytes, std::nullopt_t) { return take_last(bytes, kNoStream); }
  void* allocate_other(std::size_t bytes, StreamRef stream) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* allocate_other(std::size_t bytes, std::nullopt_t) BERTH_EXCLUDES(slow_mutex_, mutex_);
  /// Contracts of these: Allocator.
  void deallocate(void* data) {
    if (!deallocate_last(data)) [[unlikely]]
      deallocate_other(data);
  }
  /// The same for what the calling thread allocated last; false, and nothing is changed, for the rest.
  bool deallocate_last(void* data) {
    ThreadCache* const cache = caches_.mine();
    return cache != nullptr && cache->put_last(data);
  }
  /// The same for what is in the calling thread's cache.
  bool deallocate_at_hand(void* data) {
    ThreadCache* const cache = caches_.mine();
    return cache != nullptr && cache->put(data, blocks_in_use_);
  }
  void record_stream(void* data, StreamRef stream);
  void record_use(void* data, StreamRef stream) BERTH_EXCLUDES(mutex_);
  std::size_t trim(std::size_t bytes_to_keep);
  std::size_t release_unused(std::chrono::nanoseconds age, DemandHistory::Time now);
  /// Gives back `bytes` of cached memory or somewhat more, as far as there are so many: of what no
  /// work uses, or, waiting, of all that is free. Returns how many.
  std::size_t release_cached(std::size_t bytes, Waiting waiting);
  /// The same of what no work uses, and nothing where another thread is at work on the lower rungs.
  std::size_t try_release_cached(std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  enum class Ahead { grown, at_limit, no_memory };
  /// Obtains `bytes` before anybody asks for them, with no lock held. Only with a source whose plans
  /// hold nothing in the heap (WholeSegments), and which obtains several segments at once.
  /// Errors  DriverError.
  Ahead grow_ahead(std::size_t bytes) BERTH_EXCLUDES(slow_mutex_, mutex_);
  /// What is free in the heap, beside what threads keep.
  [[nodiscard]] std::size_t free_bytes() const BERTH_EXCLUDES(mutex_);
  /// What is reserved and not active, by all threads' count.
  [[nodiscard]] std::size_t cached_bytes() const BERTH_EXCLUDES(mutex_);
  /// The same as of the last time that somebody looked.
  [[nodiscard]] std::size_t cached_bytes_then() const {
    return cached_bytes_then_.load(std::memory_order_relaxed);
  }
  /// Whether the calling thread has freed at least `bytes` more than it allocated since then.
  [[nodiscard]] bool has_freed(std::size_t bytes) const {
    ThreadCache* const cache = caches_.mine();
    return cache == nullptr || cache->has_freed(bytes);
  }
  /// Nothing is kept any more for those who have addresses, once the work of all streams is done.
  void close();
  /// Whether what is freed keeps its memory, for graphs.
  [[nodiscard]] bool keeps_memory() const { return keeps_memory_; }
  /// Whether no block is live or pending, nothing is reserved, and no thread is at work on a free.
  [[nodiscard]] bool is_empty() const;

  /// Contracts of these: MemoryPool. Not while the device of `context` is being captured.
  std::size_t sleep(DeviceContext& context, SleepContent content);
  void wake(DeviceContext& context);
  [[nodiscard]] bool is_asleep() const;
  /// Contract: SegmentSource::let_in().
  void let_in(DeviceContext& user) BERTH_EXCLUDES(slow_mutex_);
  void retire_stream(StreamRef stream) noexcept;
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override;

  struct Live {
    void* data;
    std::size_t bytes_requested;
  };
  /// The live block that covers `data`, and its size.
  [[nodiscard]] std::optional<Live> find_live(const void* data) const;
  /// The live block that covers `data`; null where there is none.
  [[nodiscard]] void* find_block(const void* data) const;
  /// Whether `data` lies in memory of this allocator, in use or not.
  [[nodiscard]] bool owns(const void* data) const;

  /// False in a forked child, where every call fails or, where it must not, does nothing.
  [[nodiscard]] bool is_usable() const { return origin_.is_here(); }
  /// Errors  NotSupported: this is a forked child.
  void require_origin() const { origin_.require_here(name_); }
  [[nodiscard]] const std::string& name() const { return name_; }

  [[nodiscard]] MemoryCounters counters() const;
  void reset_peaks();
  [[nodiscard]] MemorySnapshot snapshot() const;
  void validate() const;

 private:
  struct Request {
    std::size_t bytes;  ///< rounded
    std::size_t bytes_requested;
    OwnerId owner;
    std::optional<StreamRef> stream;
    ThreadCache* cache;  ///< the calling thread's; null where it has none
    /// What the last growth lacked to stay within the limit; 0: it was something else.
    std::size_t beyond_limit_bytes = 0;
    bool refused_by_driver = false;  ///< the driver was asked for memory and had none
    std::optional<bool> is_captured = std::nullopt;  ///< nullopt: not asked yet
  };

  /// Whether a stream's free memory stays its own as long as memory is not short.
  [[nodiscard]] bool keeps_streams_apart() const {
    return cross_stream_reuse_ == CrossStreamReuse::never;
  }
  static StreamKey key_of(StreamRef stream) { return reinterpret_cast<StreamKey>(stream.native()); }
  void* take_last(std::size_t bytes, StreamKey stream) {
    ThreadCache* const cache = caches_.mine();
    return cache != nullptr ? cache->take_last(bytes, stream) : nullptr;
  }
  /// From what the calling thread keeps; null where that is not the thing.
  void* take_own(std::size_t bytes, StreamKey stream) {
    ThreadCache* const cache = caches_.mine();
    return cache != nullptr ? cache->take(bytes, stream) : nullptr;
  }

  // caching_allocator.cpp: the ladder, rung by rung. Each returns null where its rung does not
  // serve.
  void* climb(Request&& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* take_from_heap(const Request& request) BERTH_EXCLUDES(mutex_);
  void* take_from_other_threads(const Request& request) BERTH_EXCLUDES(mutex_);
  void* reclaim_then_take(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* take_from_ended_streams(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* take_from_idle_streams(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* grow_then_take(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* release_then_grow(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* take_from_other_pools(Request& request, Waiting waiting)
      BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* take_behind_waits(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* relieve_pressure_then_retry(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  void* wait_for_pending_then_retry(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  /// Whether work on the request's stream goes to a graph, and is not to be waited for. Asks the driver
  /// the first time.
  /// Errors  InvalidArgument: it does, and the memory would go on to others nevertheless.
  bool is_captured(Request& request) BERTH_EXCLUDES(mutex_);
  void* climb_to_growth(Request& request) BERTH_EXCLUDES(slow_mutex_, mutex_);
  [[noreturn]] void fail(const Request& request) BERTH_EXCLUDES(mutex_);

  // caching_allocator_slow.cpp and _streams.cpp: what the rungs are made of.
  /// Free memory of `owners` that was freed up to `serial`.
  struct Freed {
    std::vector<OwnerId> owners;
    std::uint64_t serial = 0;
  };
  void* grow_until_taken(Request& request) BERTH_REQUIRES(slow_mutex_);
  /// Joins or obtains memory once. Null with `grown` false where the limit or the driver refuses; with
  /// `grown` true where memory has come into the heap.
  void* grow(Request& request, bool& grown) BERTH_REQUIRES(slow_mutex_);
  std::optional<SegmentSource::Growth> plan_growth(Request& request, SegmentSource::Joining joining)
      BERTH_REQUIRES(slow_mutex_);
  void cancel_growth(const SegmentSource::Growth& growth) BERTH_REQUIRES(slow_mutex_);
  /// How far beyond slack_max growing by `bytes` for the request would go.
  [[nodiscard]] std::size_t excess_slack(const Request& request, std::size_t bytes) const
      BERTH_EXCLUDES(mutex_);
  /// Calls the driver; false where it has no memory, and the plan is cancelled.
  bool obtain(Request& request, SegmentSource::Growth& growth) BERTH_REQUIRES(slow_mutex_);
  /// Whether the driver would have enough left for others.
  [[nodiscard]] bool leaves_headroom(DeviceContext& context, std::size_t bytes) const
      BERTH_REQUIRES(slow_mutex_);
  /// Opens what is idle to all; before that, where streams keep theirs apart, sees whether it does to
  /// give back as much of it as the request lacks.
  void* open_then_grow(Request& request, const Freed& idle) BERTH_REQUIRES(slow_mutex_);
  void* give_back_then_grow(Request& request, Freed idle) BERTH_REQUIRES(slow_mutex_);
  /// Gives back unowned memory, and what is whole of what is idle, which nobody else gets: `bytes` or
  /// somewhat more, as far as there are so many. Returns how many.
  std::size_t give_back(std::size_t bytes, const Freed& idle) BERTH_REQUIRES(slow_mutex_);
  std::size_t give_back(std::size_t bytes) BERTH_REQUIRES(slow_mutex_) {
    return give_back(bytes, Freed{});
  }
  /// The same, and of what is idle no more than it takes beside unowned memory.
  std::size_t give_back_whole(std::size_t bytes, const Freed& idle) BERTH_REQUIRES(slow_mutex_);
  /// The same once what is idle is open to all; where streams keep theirs apart, it is opened only if
  /// what is whole does not do.
  std::size_t release_idle(std::size_t bytes, const Freed& idle) BERTH_REQUIRES(slow_mutex_);
  void note_idle_memory() BERTH_REQUIRES(slow_mutex_);
  /// Whether a stream, or what is left of it, can be asked, waited for and marked now.
  [[nodiscard]] static bool can_be_observed(const StreamTable::Entry& stream);
  /// Waits for the work that a stream has now; false where it cannot be observed, or is forgotten.
  bool wait_for(OwnerId owner) BERTH_REQUIRES(slow_mutex_) BERTH_EXCLUDES(mutex_);
  /// Marks that work; null where wait_for() says false, or there is none.
  SharedEvent end_of_work(OwnerId owner) BERTH_REQUIRES(slow_mutex_) BERTH_EXCLUDES(mutex_);
  /// Whether a stream has no work pending.
  [[nodiscard]] bool is_idle(OwnerId owner) const BERTH_REQUIRES(slow_mutex_);
  /// Where `owner` is idle: calls pass_on(serial), which passes on memory that was freed up to then,
  /// and says how many blocks. Returns whether any.
  template <class PassOn>
  bool pass_on_if_idle(OwnerId owner, const PassOn& pass_on) BERTH_REQUIRES(slow_mutex_);
  /// Gives the request's stream memory of idle streams: a hole, which is taken at once, or as many
  /// whole granules as it lacks.
  void* pass_on_idle(const Request& request) BERTH_REQUIRES(slow_mutex_);
  void pass_on_missing_granules(const Request& request) BERTH_REQUIRES(slow_mutex_);
  /// What may yet have pending work.
  [[nodiscard]] Freed unsettled() const BERTH_EXCLUDES(mutex_);
  /// What of it has none: of streams that are idle now; after waiting for them, of all.
  [[nodiscard]] Freed idle_of(const Freed& asked) const BERTH_REQUIRES(slow_mutex_);
  [[nodiscard]] Freed idle_now() const BERTH_REQUIRES(slow_mutex_);
  [[nodiscard]] Freed idle_after_wait() BERTH_REQUIRES(slow_mutex_);
  /// Opens it to all.
  void disown(const Freed& idle) BERTH_EXCLUDES(mutex_);
  /// record(), or null where the driver refuses and the stream had to be waited for.
  SharedEvent record_or_wait(StreamRef stream);
  std::optional<StreamTable::Entry> find(OwnerId owner) const BERTH_EXCLUDES(mutex_);
  /// As a snapshot has it: none for a block that any stream may use.
  [[nodiscard]] std::optional<CUstream> public_stream(const Block& block) const
      BERTH_REQUIRES(mutex_);
  [[nodiscard]] BlockInfo describe(const Block& block) const BERTH_REQUIRES(mutex_);
  /// Owners that a block or a deferred free names.
  [[nodiscard]] std::set<OwnerId> owners_in_use() const BERTH_REQUIRES(mutex_);

  // caching_allocator_uses.cpp
  /// An event after all work submitted to `stream` so far.
  /// Errors  DriverError.
  SharedEvent record(StreamRef stream);
  /// Gives an event to the marks of `stream` that have none. Where that cannot be now, they wait for
  /// the next try.
  void seal(OwnerId stream) noexcept BERTH_EXCLUDES(mutex_);
  std::vector<OwnerId> streams_deferred_for() const BERTH_EXCLUDES(mutex_);
  /// Releases the deferred frees whose events have passed.
  void reclaim_deferred() BERTH_REQUIRES(slow_mutex_);
  void pass(OwnerId stream, const RecordedEvent& end) BERTH_EXCLUDES(mutex_);
  /// Waits for the oldest deferred free; false where there is none.
  bool wait_for_oldest_deferred() BERTH_REQUIRES(slow_mutex_);

  Request make_request(std::size_t bytes, std::optional<StreamRef> stream) BERTH_EXCLUDES(mutex_);
  /// Throws where all memory there may be would not do.
  void refuse_impossible(const Request& request) BERTH_EXCLUDES(mutex_);
  /// Whether a block there would break a segment that one of its size may want, for little.
  [[nodiscard]] bool wastes(const Block& hole, const Request& request) const BERTH_REQUIRES(mutex_);
  void* take_handed_over(const Request& request) BERTH_REQUIRES(mutex_);
  /// Gives what the calling thread keeps of `owner`'s, and what was handed over, back to the heap.
  /// False where there is none.
  bool flush(ThreadCache* cache, OwnerId owner) BERTH_REQUIRES(mutex_);
  /// Counts a block as the request's.
  void* hand_out(Block& block, const Request& request) BERTH_REQUIRES(mutex_);
  void deallocate_other(void* data) BERTH_EXCLUDES(mutex_);
  void deallocate_through_heap(void* data) BERTH_EXCLUDES(mutex_);
  /// The live block at `data`; throws InvalidArgument that says what `data` is instead.
  Block& require_live(void* data, const char* action) BERTH_REQUIRES(mutex_);
  void release(Block& block) BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool is_retired(OwnerId owner) const BERTH_REQUIRES(mutex_) {
    return owner != kUnowned && streams_.entry(owner).retired;
  }
  void count_blocks() const BERTH_REQUIRES(mutex_);
  // caching_allocator_sleep.cpp
  void require_awake() const BERTH_REQUIRES(mutex_);
  void refuse_allocations() BERTH_EXCLUDES(mutex_);
  void accept_allocations() BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<MemoryRange> ranges_in_use() const BERTH_EXCLUDES(mutex_);
  std::size_t put_source_to_sleep() BERTH_REQUIRES(slow_mutex_);
  /// False where there is no memory.
  bool try_to_wake(DeviceContext& context) BERTH_EXCLUDES(slow_mutex_, mutex_);
  /// Brings the counters up to date with what a thread has done.
  void settle(Ledger& ledger) const BERTH_REQUIRES(mutex_);
  Ledger& ledger_of(ThreadCache* cache) BERTH_REQUIRES(mutex_) {
    return cache != nullptr ? cache->ledger() : ledger_without_cache_;
  }
  void settle_all(const ThreadCaches::Halt& halt) const BERTH_REQUIRES(mutex_);
  /// Gives what all threads keep back to the heap.
  void flush_caches() BERTH_EXCLUDES(mutex_);
  /// Takes blocks back into the heap that a FrontCache has kept.
  [[nodiscard]] auto back_to_heap() {
    return [this](Block& block) BERTH_UNDER_LOCK {
      --blocks_cached_;
      release(block);
    };
  }

  const ForkOrigin origin_;
  const Driver& driver_;
  const std::string name_;
  MemoryBudget& budget_;
  const std::size_t headroom_bytes_;
  const CrossStreamReuse cross_stream_reuse_;
  const std::optional<double> slack_max_;
  const Relief others_;
  std::atomic<bool> keeps_memory_;
  std::atomic<bool> is_closed_ = false;
  std::atomic<int> marking_ =
      0;  ///< threads that mark the uses of a block which they freed already
  const std::function<bool(std::size_t)> on_pressure_;
  const std::function<EventPool&(DeviceContext&)> events_;

  mutable Mutex slow_mutex_;
  HostCopy content_ BERTH_GUARDED_BY(slow_mutex_);  ///< while asleep, where it is kept
  mutable Mutex mutex_;
  BlockHeap heap_ BERTH_GUARDED_BY(mutex_);
  /// The heap's, for looking up without the lock.
  const PointerMap& blocks_in_use_;
  StreamTable streams_ BERTH_GUARDED_BY(mutex_);
  DeferredFrees deferred_ BERTH_GUARDED_BY(mutex_);
  UseLists uses_ BERTH_GUARDED_BY(mutex_);
  HandOver hand_over_ BERTH_GUARDED_BY(mutex_);
  // As of the last settling: what the caches' ledgers hold comes on top. Looking settles.
  mutable MemoryCounters counters_ BERTH_GUARDED_BY(mutex_);
  /// bytes_active since the last look at it.
  mutable Gauge demand_ BERTH_GUARDED_BY(mutex_);
  DemandHistory history_ BERTH_GUARDED_BY(mutex_);
  mutable std::atomic<std::size_t> cached_bytes_then_ = 0;
  mutable Ledger ledger_without_cache_ BERTH_GUARDED_BY(mutex_);
  mutable std::size_t blocks_cached_ BERTH_GUARDED_BY(mutex_) = 0;
  bool asleep_ BERTH_GUARDED_BY(mutex_) = false;
  mutable ThreadCaches caches_;
  /// Its steps say themselves which lock they want. Last, so that it goes before the heap.
  std::unique_ptr<SegmentSource> source_;
};

}  // namespace berth
