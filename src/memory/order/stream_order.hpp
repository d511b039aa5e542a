// SPDX-License-Identifier: Apache-2.0
// The order in which freed memory passes between streams: at once to the stream that freed it, and
// to another stream behind an order that is established here. It covers uses of blocks by other
// streams, marks at frees, memory of idle streams, and streams that end.
//
// A stream that berth owns may be queried at any time, because berth is notified before it ends.
// The handle of a foreign stream may have been destroyed, and must not reach the driver then. It is
// used only in calls that name it, which leave a mark (FreeMarks) for later queries. Memory that no
// mark covers is quarantined until the device is known to be idle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "base/condition_variable.hpp"
#include "device/device_context.hpp"
#include "memory/order/block_uses.hpp"
#include "memory/order/graph_holds.hpp"
#include "memory/order/quiescence_stats.hpp"
#include "memory/order/recorded_event.hpp"
#include "memory/order/stream_queries.hpp"
#include "memory/shared_heap.hpp"
#include "stream/capture.hpp"

namespace berth {

/// Threads  Safe from any thread. A call that passes the handle of a stream of the table to the
///          driver is a HandleUse, which the end of the stream waits for. Functions that wait for
///          the GPU hold no lock.
class StreamOrder {
 public:
  /// The pool that serves a device's events.
  using Events = std::function<EventPool&(DeviceContext&)>;

  /// `is_host_memory`: a use of a block by captured work is a hold (GraphHolds); otherwise it ends
  /// with the capture, because graphs have pools of their own. And if a stream cannot be queried,
  /// because its device has failed, its blocks stay pending and others are still served; otherwise
  /// the call fails, as the memory's own device has.
  StreamOrder(SharedHeap& heap, const Driver& driver, Events events, bool is_host_memory)
      : heap_(heap),
        driver_(driver),
        events_(std::move(events)),
        is_host_memory_(is_host_memory),
        holds_(driver) {}

  // Calls that name a stream.

  /// Contracts: Allocator.
  void record_stream(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  void record_use(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  /// Contract: PinnedAllocator.
  void keep_for_graph(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  void retire(StreamRef stream) noexcept BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Records a mark behind the frees on the stream of a request, if berth does not own the stream.
  /// `owner` is its id.
  void mark_request_stream(StreamRef stream, OwnerId owner) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  // Frees of blocks with uses.

  /// Streams whose new marks need an event.
  struct Unsealed {
    std::array<OwnerId, 16> streams{};  ///< others are sealed by a later query
    std::size_t count = 0;
  };
  /// Makes a block that is being freed pending if it awaits other streams. Returns whether it does.
  /// `ledger` has counted the free. Never throws.
  bool defer(Block& block, Ledger& ledger, Unsealed& unsealed) BERTH_REQUIRES(heap_.mutex);
  /// Records the events of new marks. Failed records are tried again later.
  void seal(const Unsealed& unsealed) noexcept BERTH_EXCLUDES(heap_.mutex);
  /// Releases deferred frees whose events have passed. Returns the number of blocks.
  std::size_t reclaim() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Ends the holds of destroyed graphs, and releases blocks that awaited nothing else. No driver
  /// call. Returns the number of blocks.
  std::size_t release_unheld() noexcept BERTH_REQUIRES(heap_.mutex);
  /// Waits for the oldest deferred free that has an event, of those up to `made_by`
  /// (BlockUses::now()); false if there is none. Without this bound, a caller that waits for one
  /// free after the other would not return while other threads keep freeing.
  bool wait_for_oldest(std::uint64_t made_by) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  // Memory of streams without pending work.

  /// The free memory of all idle streams. Empty if memory is kept for graphs, which may be launched
  /// again.
  [[nodiscard]] std::vector<Freed> idle() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return idle(std::numeric_limits<std::size_t>::max());
  }
  /// The same for as many streams as one request may query.
  [[nodiscard]] std::vector<Freed> idle_within_limit() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return idle(kQueriesMax);
  }
  /// The same after waiting for all streams that can be waited for.
  [[nodiscard]] std::vector<Freed> wait_until_idle() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Makes it unowned. Returns how many blocks.
  std::size_t disown(std::span<const Freed> idle) BERTH_EXCLUDES(heap_.mutex);
  /// Whether other streams have free memory that would serve the request.
  [[nodiscard]] bool others_can_serve(const Request& request) BERTH_EXCLUDES(heap_.mutex);
  /// Makes all free memory unowned, if every stream with free memory is idle. Stops at the first
  /// busy stream. Returns the number of blocks.
  std::size_t disown_all_idle() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// The statistics of disown_all_idle().
  [[nodiscard]] QuiescenceStats& quiescence() BERTH_REQUIRES(heap_.slow_mutex) {
    return quiescence_;
  }
  /// Transfers memory of idle streams to the request's stream: the minimum that serves the request,
  /// or the missing granules. Returns the number of blocks.
  std::size_t borrow(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Makes the memory of drained streams unowned.
  std::size_t disown_drained() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Makes the request's stream wait for the other streams, and gives it their memory.
  std::size_t take_behind_waits(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  // The same before memory is obtained (CrossStreamReuse::before_growth).

  /// As take_behind_waits(), one stream after the other, beginning with the streams whose last free
  /// is the oldest, until the request can be served. None if all of them together would not serve
  /// it. Returns the number of blocks.
  std::size_t take_some_behind_waits(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Makes the request's stream wait for uses of its own freed blocks by other streams, until the
  /// request can be served, a bounded number of times. Returns the number of blocks that became
  /// free.
  std::size_t take_deferred(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// The same for other streams' freed blocks: the request's stream waits for each block's owner
  /// and for the use, and takes the block over.
  std::size_t take_deferred_of_others(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  /// Waits until each device is idle of which streams that cannot be queried hold memory. Memory
  /// that awaits a device which cannot be waited for stays. Returns how many blocks became free.
  std::size_t recover_quarantined() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Waits for the work submitted to all streams so far.
  void wait_for_all() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  // For inspection, under the heap's lock.
  [[nodiscard]] const BlockUses& uses() const BERTH_REQUIRES(heap_.mutex) { return uses_; }
  /// Holds of graphs that still exist.
  [[nodiscard]] std::size_t holds() const BERTH_REQUIRES(heap_.mutex) {
    return holds_.outstanding();
  }

 private:
  /// An event behind the current work of a stream, or its last mark, and the frees that it covers.
  struct EndOfWork {
    Freed freed;
    SharedEvent event;  ///< null: there is no work
  };
  /// A deferred free, and the event that it awaits; null if the stream is drained.
  struct Deferred {
    OwnerId stream;
    RecordedEvent end;
  };
  /// Maximum number of streams that a rung queries, beside those whose memory it takes.
  static constexpr std::size_t kQueriesMax = 14;

  /// The part of an entry that a query needs.
  struct View {
    StreamRef stream;
    bool is_retired;
    bool is_unordered;
    bool may_use_handle;  ///< berth owns it: its handle is valid during a HandleUse
    SharedEvent last_work;
    std::uint64_t serial;  ///< of the heap, before the query
  };

  /// An event after all work submitted to `stream` so far.
  /// Errors  DriverError.
  SharedEvent record(StreamRef stream);
  /// The same; if all events are on lease, the events of completed deferred frees are returned
  /// first.
  SharedEvent record_reclaiming(StreamRef stream) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  class HandleUse;
  /// The second part keeps a stream whose handle may be used from ending.
  [[nodiscard]] View view(OwnerId owner, std::optional<HandleUse>& handle_use)
      BERTH_EXCLUDES(heap_.mutex) {
    const MutexLock lock(heap_.mutex);
    return view_in_lock(owner, handle_use);
  }
  [[nodiscard]] View view_in_lock(OwnerId owner, std::optional<HandleUse>& handle_use)
      BERTH_REQUIRES(heap_.mutex);
  /// Whether a mark covers all frees on a stream that cannot be queried.
  [[nodiscard]] bool is_all_marked(const Freed& freed) BERTH_EXCLUDES(heap_.mutex);
  /// The frees on `owner` that are known to have no work pending; nullopt: none.
  [[nodiscard]] std::optional<Freed> find_done(OwnerId owner, StreamQueries& queries)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::optional<Freed> find_done_by_marks(OwnerId owner) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::optional<EndOfWork> end_of_work(OwnerId owner) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<EndOfWork> ends_of_work(std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<Freed> idle(std::size_t queries_max) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Their frees that have no work pending.
  [[nodiscard]] std::vector<Freed> idle_among(std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Owners that have free memory, and retired streams that are not drained.
  [[nodiscard]] std::vector<OwnerId> owners_to_query() BERTH_EXCLUDES(heap_.mutex);
  std::size_t pass_on_missing_granules(const Request& request, StreamQueries& queries,
                                       std::size_t queries_left) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  std::size_t take_behind_waits(const Request& request, std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Makes it unowned. Returns how many blocks.
  std::size_t disown_one(const Freed& freed) BERTH_REQUIRES(heap_.mutex);
  /// Whether no hole and no whole granules, its own or unowned, would serve the request.
  [[nodiscard]] bool lacks_memory(const Request& request) const BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] bool has_fit(OwnerId owner, const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] bool can_donate(OwnerId owner) const BERTH_REQUIRES(heap_.mutex);
  /// Streams whose memory would serve the request, in the order in which it is taken.
  [[nodiscard]] std::vector<OwnerId> find_donors(const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  /// Other owners whose deferred frees may become free behind waits.
  [[nodiscard]] std::vector<OwnerId> find_owners_held_up(const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  /// The graph of a valid capture holds the block from now on. False if there is no graph.
  bool hold_for(const CaptureState& capture, void* data, StreamRef stream, const char* action)
      BERTH_EXCLUDES(heap_.mutex);
  void hold_for_graph(const CaptureState& capture, void* data, StreamRef stream, const char* action)
      BERTH_EXCLUDES(heap_.mutex);
  void hold_permanently(void* data, const char* action) BERTH_EXCLUDES(heap_.mutex);
  /// Errors  std::bad_alloc: nothing is changed.
  void hold(Block& block) BERTH_REQUIRES(heap_.mutex);
  /// Undoes one hold().
  void release_hold(Block& block) noexcept BERTH_REQUIRES(heap_.mutex);
  /// Releases a pending block after its last use.
  void release_deferred(Block& block) BERTH_REQUIRES(heap_.mutex);
  /// The same, to the stream of `to`, which waits for the owner's stream as well.
  void release_deferred(Block& block, OwnerId to) BERTH_REQUIRES(heap_.mutex);
  void seal(OwnerId stream) BERTH_EXCLUDES(heap_.mutex);
  /// The oldest deferred free of wait_for_oldest(), of streams that are not `excluded`.
  [[nodiscard]] std::optional<Deferred> find_oldest(std::uint64_t made_by,
                                                    std::span<const OwnerId> excluded)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  std::size_t complete(OwnerId stream, const RecordedEvent& end) BERTH_EXCLUDES(heap_.mutex);
  /// A query with the handle of a stream failed: quarantine(), or tolerate().
  void on_failed_query(OwnerId owner, const DriverError& error) BERTH_EXCLUDES(heap_.mutex);
  /// A stream could not be queried or awaited. Reports it, at most once for each stream.
  /// Errors  `error`, unless this is host memory.
  void tolerate(OwnerId owner, const DriverError& error) BERTH_EXCLUDES(heap_.mutex);
  /// Whether an event has passed; false, too, if tolerate() accepts the failure of the query.
  bool has_completed(OwnerId owner, const SharedEvent& event) BERTH_EXCLUDES(heap_.mutex);
  /// Waits for an event. False if tolerate() accepts the failure of the wait.
  bool wait_for(OwnerId owner, const SharedEvent& event)
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// The driver rejects the handle of a stream: it was destroyed without notice.
  void quarantine(OwnerId owner, const Error& error) BERTH_EXCLUDES(heap_.mutex);
  /// Waits until the device is idle; false if that would break a capture, or fails.
  /// Errors  DriverError: a capture query failed.
  bool synchronize(DeviceContext& context) const BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// The same. An event that was not recorded since, so that it has passed; null instead of false,
  /// or if there is no event. An error is reported.
  SharedEvent try_synchronize(DeviceContext& context) noexcept
      BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  void forget_streams() noexcept BERTH_REQUIRES(heap_.mutex);
  void retire_here(StreamRef stream) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Also if another thread has retired it: one that began before may still use the handle.
  void wait_for_handle_uses(StreamRef ending) noexcept BERTH_EXCLUDES(heap_.mutex);

  SharedHeap& heap_;
  const Driver& driver_;
  const Events events_;
  const bool is_host_memory_;
  ConditionVariable handle_use_ended_;  ///< of a stream that ends
  BlockUses uses_ BERTH_GUARDED_BY(heap_.mutex);
  GraphHolds holds_;  ///< guarded by heap_.mutex, except for hand_over()
  QuiescenceStats quiescence_ BERTH_GUARDED_BY(heap_.slow_mutex);
  // Scratch space of disown_all_idle(), kept for its capacity.
  std::vector<OwnerId> quiescence_owners_ BERTH_GUARDED_BY(heap_.slow_mutex);
  std::vector<Freed> quiescence_idle_ BERTH_GUARDED_BY(heap_.slow_mutex);
  std::size_t streams_kept_ BERTH_GUARDED_BY(heap_.mutex) = 0;  ///< by the last forget_streams()
};

/// A call that passes the handle of a stream to the driver. The stream does not end before this.
/// Not the slow lock of the heap ensures that, because a stream that ends in on_map or on_unmap
/// cannot wait for that lock. No mapping callback is called during a HandleUse.
class StreamOrder::HandleUse {
 public:
  HandleUse(StreamOrder& order, OwnerId stream) BERTH_REQUIRES(order.heap_.mutex)
      : order_(order), stream_(stream) {
    order.heap_.streams.begin_handle_use(stream);
  }
  ~HandleUse() {
    const MutexLock lock(order_.heap_.mutex);
    if (order_.heap_.streams.end_handle_use(stream_)) order_.handle_use_ended_.notify_all();
  }
  HandleUse(const HandleUse&) = delete;
  HandleUse& operator=(const HandleUse&) = delete;

 private:
  StreamOrder& order_;
  const OwnerId stream_;
};

}  // namespace berth
