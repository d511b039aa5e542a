// SPDX-License-Identifier: Apache-2.0
// The source of a heap's memory: growth within the limits, returning cached memory, sleep.
// Functions that call the driver for memory hold the heap's slow lock, and take its mutex only
// between driver calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "berth/cross_stream_reuse.hpp"
#include "berth/sleep_content.hpp"

#include "base/condition_variable.hpp"
#include "device/device_context.hpp"
#include "memory/demand_history.hpp"
#include "memory/host_copy.hpp"
#include "memory/memory_budget.hpp"
#include "memory/order/stream_order.hpp"
#include "memory/shared_heap.hpp"
#include "memory/source/segment_source.hpp"

namespace berth {

/// Threads  Safe from any thread.
class Reserve {
 public:
  struct Options {
    /// The limit of reserved memory; must outlive the reserve.
    MemoryBudget& budget;
    /// Free memory, as the driver reports it, that growth leaves to others; 0: no query.
    std::size_t headroom_bytes = 0;
    /// Whether a stream keeps its free memory to itself while memory is not short.
    bool isolates_streams = false;
    /// Memory that may be reserved beyond the most that was ever active, as a fraction of that,
    /// before growth first returns whole idle segments; nullopt: no bound. With a bound, segments
    /// that are not shared are used whole or not at all.
    std::optional<double> slack_max = std::nullopt;
  };

  Reserve(SharedHeap& heap, StreamOrder& order, const Driver& driver, const Options& options,
          std::unique_ptr<SegmentSource> source)
      : heap_(heap),
        order_(order),
        driver_(driver),
        options_(options),
        source_(std::move(source)) {}

  /// The largest request that could be served if all memory were free.
  [[nodiscard]] std::size_t capacity_bytes() const {
    return std::min(source_->capacity_bytes(), options_.budget.max());
  }
  [[nodiscard]] std::size_t source_capacity_bytes() const { return source_->capacity_bytes(); }
  /// Contract: SegmentSource.
  [[nodiscard]] std::optional<std::uintptr_t> address_of_stitched(std::span<const HeapExtent> parts)
      BERTH_REQUIRES(heap_.slow_mutex) {
    return source_->address_of_stitched(parts);
  }
  [[nodiscard]] MemoryBudget& budget() const { return options_.budget; }
  [[nodiscard]] std::size_t headroom_bytes() const { return options_.headroom_bytes; }
  /// Whether a block of `bytes` in this whole segment would leave more than the slack unused.
  [[nodiscard]] bool exceeds_slack(const Block& hole, std::size_t bytes) const
      BERTH_REQUIRES(heap_.mutex);

  enum class Growth {
    none,     ///< the limit or the driver refuses
    made,     ///< the heap has more free memory
    serving,  ///< and the request is served
  };
  /// Stitches memory of the request's stream and unowned memory, and obtains nothing.
  /// Errors  DriverError.
  Growth stitch(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Stitches or obtains memory once.
  /// Errors  DriverError. InvalidArgument: the request's stream is captured.
  Growth grow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex)
      BERTH_NO_THREAD_SAFETY_ANALYSIS;  // order_ holds the same lock under another name

  /// Whether growth for the request would raise reserved memory above 1.03 times the peak of live
  /// memory.
  [[nodiscard]] bool grows_beyond_demand(const Request& request) BERTH_EXCLUDES(heap_.mutex);

  /// Returns up to `bytes` of unowned memory, or somewhat more, to the driver. Returns the number
  /// of bytes.
  std::size_t give_back(std::size_t bytes) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return give_back(bytes, {});
  }
  /// The same with whole segments or granules of idle memory, as far as unowned memory is short.
  std::size_t give_back_whole(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// The same after disowning idle memory; if streams are isolated, it is disowned only
  /// if whole segments or granules do not suffice.
  std::size_t release_idle(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Returns whole segments or granules of idle memory, up to the bytes that the request lacks,
  /// without disowning memory. Returns the number of bytes.
  std::size_t give_back_for(const Request& request, std::vector<Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Whether the driver has refused to take back memory since the last call, and the call that it
  /// refused. That memory stays reserved.
  DriverRefusal take_refusal() BERTH_REQUIRES(heap_.slow_mutex) {
    return std::exchange(refusal_, {});
  }
  /// Reserved bytes that were not needed since `now - age`.
  [[nodiscard]] std::size_t unused_bytes(std::chrono::nanoseconds age, DemandHistory::Time now)
      BERTH_EXCLUDES(heap_.mutex);

  enum class GrowAheadResult { grown, at_limit, no_memory };
  /// Obtains `bytes` ahead of need, without a lock. Only with a source whose plans hold nothing in
  /// the heap (WholeSegments), and which may obtain several segments at once.
  /// Errors  DriverError.
  GrowAheadResult grow_ahead(std::size_t bytes) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  struct Sleep {
    std::uint64_t number;
    std::set<std::uintptr_t> stitched;
  };
  // Contracts of these: MemoryPool. Not while the device of `context` is being captured.

  /// The part of a sleep that may fail, after which requests are refused, and memory is still
  /// mapped. nullopt: it is asleep, or another thread has woken it meanwhile.
  [[nodiscard]] std::optional<Sleep> begin_sleep(DeviceContext& context, SleepContent content)
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Memory that a call has returned to the driver.
  struct Returned {
    std::size_t bytes = 0;
    DriverRefusal refusal = {};  ///< by which the driver has refused more
    void add(const Returned& more) {
      bytes += more.bytes;
      if (more.refusal) refusal = more.refusal;
    }
  };
  /// The rest, unless another thread has woken it. What the driver refuses stays reserved.
  Returned finish_sleep(const Sleep& begun) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Undoes begin_sleep().
  void cancel_sleep(std::uint64_t number) noexcept BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// False if there is no memory.
  bool try_to_wake(DeviceContext& context) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Drops the content that sleep() kept.
  void forget_content() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Contract: SegmentSource::grant_access().
  void grant_access(DeviceContext& user) BERTH_EXCLUDES(heap_.slow_mutex);
  /// Called at the end: returns everything, including live blocks.
  void give_back_all() noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
    source_->give_back_all(heap_.blocks);
  }
  /// Called in a forked child: memory and driver belong to the parent.
  std::unique_ptr<SegmentSource> abandon() { return std::move(source_); }

 private:
  using Plan = SegmentSource::Growth;

  /// At most `bytes_max` of new memory: the source's choice, otherwise the least for the request.
  std::optional<Plan> plan(Request& request, SegmentSource::Stitching stitching,
                           std::size_t bytes_max = MemoryBudget::kNoLimit)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  void cancel(const Plan& plan) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Calls the driver. False if the driver is out of memory; the plan is then cancelled.
  bool obtain(Request& request, Plan& plan) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  bool finish(Request& request, const Plan& plan) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Adds obtained memory to the heap. If it throws, the heap is unchanged.
  Block* enter(const Plan& plan, std::size_t bytes_requested, OwnerId owner)
      BERTH_REQUIRES(heap_.mutex);
  /// Undoes obtain(), if host memory for the heap cannot be allocated.
  void give_back_growth(const Plan& plan) noexcept BERTH_EXCLUDES(heap_.mutex);
  /// Counts as reserved what the source keeps because the driver has refused it, and as asleep what
  /// sleep() has returned, after each call of the source that may change them. What callers have
  /// reserved in the budget for the same memory is given back afterwards, so that no other thread
  /// reserves it meanwhile.
  void recount() BERTH_REQUIRES(heap_.mutex);
  /// Recounts, and gives back `bytes` of the budget.
  void settle(std::size_t bytes) BERTH_EXCLUDES(heap_.mutex);
  /// Serves the request with `block`, otherwise with a block of the heap; false if there is none.
  bool serve(Request& request, const Plan& plan, Block* block) BERTH_REQUIRES(heap_.mutex);
  /// Bytes by which growth for the request would exceed slack_max.
  [[nodiscard]] std::size_t excess_slack(const Request& request, std::size_t bytes)
      BERTH_EXCLUDES(heap_.mutex);
  /// Whether the driver would have headroom_bytes left.
  [[nodiscard]] bool leaves_headroom(DeviceContext& context, std::size_t bytes) const;
  void set_idle_memory() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;  // likewise
  std::size_t give_back(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// The first step of give_back(): tries again to return what the driver has refused, also of
  /// sleep(). Returns the bytes.
  std::size_t retry_refused() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Each further step: the pieces of one plan of the source.
  std::size_t give_back_some(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] bool is_asleep_since(std::uint64_t sleep) const BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<MemoryRange> ranges_in_use() const BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::set<std::uintptr_t> stitched_addresses() const BERTH_EXCLUDES(heap_.mutex);

  /// Takes the slow lock while no other thread copies the content, which is waited for.
  [[nodiscard]] std::unique_lock<Mutex> lock_between_copies()
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// Releases the slow lock while `copy` runs, which waits for the GPU. Until then no other thread
  /// puts the pool to sleep, wakes it or drops the content.
  template <class Copy>
  void copy_without_lock(std::unique_lock<Mutex>& slow, const Copy& copy)
      BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// The memory of a pool that wakes. False if there is none.
  bool obtain_asleep(DeviceContext& context, std::size_t bytes) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  SharedHeap& heap_;
  StreamOrder& order_;
  const Driver& driver_;
  const Options options_;
  /// Its functions declare the locks that they need.
  std::unique_ptr<SegmentSource> source_;
  /// While asleep, if kept. The thread that copies has it without the lock.
  HostCopy content_ BERTH_GUARDED_BY(heap_.slow_mutex);
  bool is_copying_ BERTH_GUARDED_BY(heap_.mutex) = false;
  ConditionVariable copied_;
  std::uint64_t sleeps_ BERTH_GUARDED_BY(heap_.slow_mutex) = 0;  ///< number of sleeps begun
  /// Between begin_sleep() and finish_sleep().
  bool has_memory_asleep_ BERTH_GUARDED_BY(heap_.slow_mutex) = false;
  DriverRefusal refusal_ BERTH_GUARDED_BY(heap_.slow_mutex);
  DemandHistory history_ BERTH_GUARDED_BY(heap_.mutex);
};

/// Whether the request's stream is captured, so its work must not be waited for. Queries the driver
/// the first time.
bool is_captured(Request& request);
/// The same for a request that is about to wait.
/// Errors  InvalidArgument: it is captured, and freed memory is not kept for graphs.
bool is_captured(const SharedHeap& heap, Request& request);

}  // namespace berth
