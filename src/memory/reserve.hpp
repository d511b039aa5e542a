// SPDX-License-Identifier: Apache-2.0
// The source of a heap's memory: growth within the limits, returning cached memory, sleep.
// Functions that call the driver for memory hold the heap's slow lock, and take its mutex only
// between calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "berth/cross_stream_reuse.hpp"
#include "berth/memory_pool.hpp"

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
    /// What may be reserved; must outlive the reserve.
    MemoryBudget& budget;
    /// What growing leaves to others, by the driver's count; 0: it is not asked.
    std::size_t headroom_bytes = 0;
    /// Whether a stream's free memory stays its own as long as memory is not short.
    bool isolates_streams = false;
    /// How much may be reserved beyond the most that was ever active before growing gives whole
    /// idle memory back first, as a part of it; nullopt: no matter how much. Segments that are not
    /// shared are then taken whole or not at all.
    std::optional<double> slack_max = std::nullopt;
  };

  Reserve(SharedHeap& heap, StreamOrder& order, const Driver& driver, const Options& options,
          std::unique_ptr<SegmentSource> source)
      : heap_(heap),
        order_(order),
        driver_(driver),
        options_(options),
        source_(std::move(source)) {}

  /// The most that one request can be served, if all memory were free.
  [[nodiscard]] std::size_t capacity_bytes() const {
    return std::min(source_->capacity_bytes(), options_.budget.max());
  }
  [[nodiscard]] std::size_t source_capacity_bytes() const { return source_->capacity_bytes(); }
  [[nodiscard]] MemoryBudget& budget() const { return options_.budget; }
  /// Whether a block there would break a segment that one of its size may want, for little.
  [[nodiscard]] bool exceeds_slack(const Block& hole, std::size_t bytes) const
      BERTH_REQUIRES(heap_.mutex);

  enum class Growth {
    none,     ///< the limit or the driver refuses
    made,     ///< there is more memory in the heap
    serving,  ///< and the request is served
  };
  /// Joins what is the request's own and what is open to all, and obtains nothing.
  /// Errors  DriverError.
  Growth join(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Joins or obtains memory once.
  /// Errors  DriverError. InvalidArgument: the request's stream is captured.
  Growth grow(Request& request) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex)
      BERTH_NO_THREAD_SAFETY_ANALYSIS;  // order_ holds the same lock under another name

  /// Whether growing for the request would take what is reserved beyond what was ever live, and
  /// some.
  [[nodiscard]] bool grows_beyond_demand(const Request& request) BERTH_EXCLUDES(heap_.mutex);

  /// Gives unowned memory back: `bytes` or somewhat more, as far as there are so many. Returns how
  /// many.
  std::size_t give_back(std::size_t bytes) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return give_back(bytes, {});
  }
  /// The same, and what is whole of what is idle, no more than it takes beside unowned memory.
  std::size_t give_back_whole(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// The same once what is idle is open to all; where streams keep theirs apart, it is opened only
  /// if what is whole does not do.
  std::size_t release_idle(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// As much as the request lacks of what is idle, whole; nothing is opened. Returns how many
  /// bytes.
  std::size_t give_back_for(const Request& request, std::vector<Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// How much of it was not needed since `now - age`.
  [[nodiscard]] std::size_t unused_bytes(std::chrono::nanoseconds age, DemandHistory::Time now)
      BERTH_EXCLUDES(heap_.mutex);

  enum class GrowAheadResult { grown, at_limit, no_memory };
  /// Obtains `bytes` before anybody asks for them, with no lock held. Only with a source whose
  /// plans hold nothing in the heap (WholeSegments), and which obtains several segments at once.
  /// Errors  DriverError.
  GrowAheadResult grow_ahead(std::size_t bytes) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  /// Contracts of these: MemoryPool. Not while the device of `context` is being captured.
  std::size_t sleep(DeviceContext& context, SleepContent content)
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// False where there is no memory.
  bool try_to_wake(DeviceContext& context) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// What sleep() kept is not wanted any more.
  void forget_content() BERTH_REQUIRES(heap_.slow_mutex) { content_.clear(); }
  /// Contract: SegmentSource::grant_access().
  void grant_access(DeviceContext& user) BERTH_EXCLUDES(heap_.slow_mutex);
  /// The end: gives everything back, live or not.
  void give_back_all() noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
    source_->give_back_all(heap_.blocks);
  }
  /// In a forked child: the memory is the parent's, and so is the driver.
  std::unique_ptr<SegmentSource> abandon() { return std::move(source_); }

 private:
  using Plan = SegmentSource::Growth;

  std::optional<Plan> plan(Request& request, SegmentSource::Joining joining)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  void cancel(const Plan& plan) BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Calls the driver; false where it has no memory, and the plan is cancelled.
  bool obtain(Request& request, Plan& plan) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  bool finish(Request& request, const Plan& plan) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Puts what was obtained into the heap. Where it throws, it is not there.
  Block* enter(const Plan& plan, std::size_t bytes_requested, OwnerId owner)
      BERTH_REQUIRES(heap_.mutex);
  /// Undoes obtain(), where the host has no memory to put it into the heap.
  void give_back_growth(const Plan& plan) noexcept BERTH_EXCLUDES(heap_.mutex);
  /// Gives the request `block`, or else a block in the heap; false where there is none.
  bool serve(Request& request, const Plan& plan, Block* block) BERTH_REQUIRES(heap_.mutex);
  /// How far beyond slack_max growing by `bytes` for the request would go.
  [[nodiscard]] std::size_t excess_slack(const Request& request, std::size_t bytes)
      BERTH_EXCLUDES(heap_.mutex);
  /// Whether the driver would have enough left for others.
  [[nodiscard]] bool leaves_headroom(DeviceContext& context, std::size_t bytes) const;
  void set_idle_memory() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) BERTH_NO_THREAD_SAFETY_ANALYSIS;  // likewise
  std::size_t give_back(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// The same for as many pieces as a plan of the source has.
  std::size_t give_back_some(std::size_t bytes, std::span<const Freed> idle)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] bool is_asleep_since(std::uint64_t sleep) const BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<MemoryRange> ranges_in_use() const BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::set<std::uintptr_t> stitched_addresses() const BERTH_EXCLUDES(heap_.mutex);

  SharedHeap& heap_;
  StreamOrder& order_;
  const Driver& driver_;
  const Options options_;
  /// Its steps say themselves which lock they want.
  std::unique_ptr<SegmentSource> source_;
  HostCopy content_ BERTH_GUARDED_BY(heap_.slow_mutex);          ///< while asleep, where it is kept
  std::uint64_t sleeps_ BERTH_GUARDED_BY(heap_.slow_mutex) = 0;  ///< ever begun
  /// Between the two steps of sleep(): requests are refused already, and all memory is still
  /// mapped.
  bool has_memory_asleep_ BERTH_GUARDED_BY(heap_.slow_mutex) = false;
  DemandHistory history_ BERTH_GUARDED_BY(heap_.mutex);
};

/// Whether work on the request's stream goes to a graph, and is not to be waited for. Asks the
/// driver the first time.
bool is_captured(Request& request);
/// The same of a request that must be served some other way.
/// Errors  InvalidArgument: it does, and the memory would go on to others nevertheless.
bool is_captured(const SharedHeap& heap, Request& request);

}  // namespace berth
