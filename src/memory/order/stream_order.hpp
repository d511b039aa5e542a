// SPDX-License-Identifier: Apache-2.0
// The order in which freed memory passes between streams: at once to the stream that freed it, and
// to another stream behind an order that is established here. It covers uses of blocks by other
// streams, marks at frees, memory of idle streams, and streams that end.
//
// A stream that berth owns may be queried at any time, because berth is notified before it ends.
// The handle of a foreign stream may be gone, and must not reach the driver then. It is used only
// in calls that name it, which leave a mark (FreeMarks) for later queries. Memory that no mark
// covers is quarantined until the device is known to be idle.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "memory/order/block_uses.hpp"
#include "memory/order/graph_holds.hpp"
#include "memory/order/quiescence_stats.hpp"
#include "memory/order/recorded_event.hpp"
#include "memory/order/stream_queries.hpp"
#include "memory/shared_heap.hpp"
#include "stream/capture.hpp"

namespace berth {

/// Threads  Safe from any thread. Functions that ask the driver about streams hold the heap's slow
///          lock, which a stream that goes away waits for; those that wait for the GPU hold none.
class StreamOrder {
 public:
  /// The pool that serves a device's events.
  using Events = std::function<EventPool&(DeviceContext&)>;

  /// `graphs_hold`: a use of a block by captured work is a hold (GraphHolds). Otherwise it ends
  /// with the capture, because graphs have pools of their own.
  StreamOrder(SharedHeap& heap, const Driver& driver, Events events, bool graphs_hold)
      : heap_(heap),
        driver_(driver),
        events_(std::move(events)),
        graphs_hold_(graphs_hold),
        holds_(driver) {}

  // Calls that name a stream.

  /// Contracts: Allocator.
  void record_stream(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  void record_use(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  /// Contract: PinnedAllocator.
  void keep_for_graph(void* data, StreamRef stream) BERTH_EXCLUDES(heap_.mutex);
  void retire(StreamRef stream) noexcept BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// `stream`, whose id is `owner`, is named by a request: what was freed on it so far gets a mark
  /// where it could not be asked for otherwise.
  void mark_request_stream(StreamRef stream, OwnerId owner) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  // Frees behind uses.

  /// Streams whose new marks want an event.
  struct Unsealed {
    std::array<OwnerId, 16> streams{};  ///< more than that are sealed by a later question
    std::size_t count = 0;
  };
  /// Whether a block that is being freed awaits other streams: then it is pending. Never throws.
  bool defer(Block& block, Unsealed& unsealed) BERTH_REQUIRES(heap_.mutex);
  /// Gives marks their event. What cannot be marked now waits for the next try.
  void seal(const Unsealed& unsealed) noexcept BERTH_EXCLUDES(heap_.mutex);
  /// Releases deferred frees whose events have passed. Returns how many.
  std::size_t reclaim() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Ends the holds of graphs that are gone, and releases the blocks that awaited nothing else. No
  /// driver call. Returns how many blocks.
  std::size_t release_unheld() noexcept BERTH_REQUIRES(heap_.mutex);
  /// Waits for the oldest deferred free that has an event, of those up to `made_by`
  /// (BlockUses::now()); false if there is none. Without that bound, a caller that waits for one
  /// after the other would not return while other threads free more.
  bool wait_for_oldest(std::uint64_t made_by) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  // Memory of streams without pending work.

  /// All that is idle now, so that no work is pending on it. Where memory is kept for graphs:
  /// nothing, for they may be launched again.
  [[nodiscard]] std::vector<Freed> idle() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return idle(std::numeric_limits<std::size_t>::max());
  }
  /// The same of the first streams only, as many as one request may ask.
  [[nodiscard]] std::vector<Freed> some_idle() BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex) {
    return idle(kQueriesMax);
  }
  /// The same once the work of all streams that can be waited for is done.
  [[nodiscard]] std::vector<Freed> wait_until_idle() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Opens it to all. Returns how many blocks.
  std::size_t open(std::span<const Freed> idle) BERTH_EXCLUDES(heap_.mutex);
  /// Whether streams other than the request's have free memory that would be of use to it.
  [[nodiscard]] bool others_can_serve(const Request& request) BERTH_EXCLUDES(heap_.mutex);
  /// Opens all of it where every stream is idle that has any; asks no further than up to the first
  /// that is not. Returns how many blocks.
  std::size_t open_all_idle() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// What open_all_idle() has learned.
  [[nodiscard]] QuiescenceStats& quiescence() BERTH_REQUIRES(heap_.slow_mutex) {
    return quiescence_;
  }
  /// Passes memory of idle streams on to the request's: as little as serves it, or the granules
  /// that it lacks. Returns how many blocks.
  std::size_t borrow(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Opens what streams have left that are gone and whose work is done.
  std::size_t open_drained() BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Makes the request's stream wait for the others' work, and gives it their memory.
  std::size_t take_behind_waits(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  // The same before memory is obtained (CrossStreamReuse::before_growth).

  /// As take_behind_waits(), of one other stream after the other, those first that have freed
  /// nothing for longest, until the request lacks nothing; of none where all together would not do.
  /// Returns how many blocks.
  std::size_t take_some_behind_waits(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// Makes the request's stream wait for uses of its own freed blocks by other streams, until the
  /// request lacks nothing or none is left, or some times. Returns how many blocks came free.
  std::size_t take_deferred(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// The same of other streams' freed blocks: the request's stream waits for the owner of each and
  /// for the use, and takes them over.
  std::size_t take_deferred_of_others(const Request& request) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);

  /// Waits until the device is idle, where memory awaits streams that cannot be asked. Returns how
  /// many blocks came free.
  std::size_t recover_quarantined() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  /// Waits for the work that all streams have now.
  void wait_for_all() BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  // For inspection, under the heap's lock.
  [[nodiscard]] const BlockUses& uses() const BERTH_REQUIRES(heap_.mutex) { return uses_; }
  /// Holds that graphs have which still exist.
  [[nodiscard]] std::size_t holds() const BERTH_REQUIRES(heap_.mutex) {
    return holds_.outstanding();
  }

 private:
  /// An event after the work that a stream has now, or has last marked, and what it covers.
  struct EndOfWork {
    Freed freed;
    SharedEvent event;  ///< null: there is no work
  };
  /// Streams that a rung asks at most, beside those whose memory the request takes.
  static constexpr std::size_t kQueriesMax = 14;

  /// What of an entry a question needs.
  struct View {
    StreamRef stream;
    bool is_retired;
    bool is_unordered;
    bool may_use_handle;  ///< berth owns it: its handle is good under the slow lock, or a HandleUse
    SharedEvent last_work;
    std::uint64_t serial;  ///< of the heap, before the question
  };

  /// An event after all work submitted to `stream` so far.
  /// Errors  DriverError.
  SharedEvent record(StreamRef stream);
  /// The same; where all events are on lease, those of deferred frees that have passed come back
  /// first.
  SharedEvent record_reclaiming(StreamRef stream) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  SharedEvent record_or_wait(StreamRef stream);
  [[nodiscard]] View view(OwnerId owner) BERTH_EXCLUDES(heap_.mutex);
  /// Of a stream that cannot be asked: whether a mark covers all that it freed.
  [[nodiscard]] bool is_all_marked(const Freed& freed) BERTH_EXCLUDES(heap_.mutex);
  /// What of `owner`'s is known to have no work pending; nullopt: nothing.
  [[nodiscard]] std::optional<Freed> find_done(OwnerId owner, StreamQueries& queries)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::optional<Freed> find_done_by_marks(OwnerId owner) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::optional<EndOfWork> end_of_work(OwnerId owner) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<EndOfWork> ends_of_work(std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  [[nodiscard]] std::vector<Freed> idle(std::size_t queries_max) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  /// What of theirs has no work pending.
  [[nodiscard]] std::vector<Freed> idle_among(std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Owners that have free memory, and streams that are gone whose last work may still run.
  [[nodiscard]] std::vector<OwnerId> owners_to_query() BERTH_EXCLUDES(heap_.mutex);
  std::size_t pass_on_missing_granules(const Request& request, StreamQueries& queries,
                                       std::size_t queries_left) BERTH_REQUIRES(heap_.slow_mutex)
      BERTH_EXCLUDES(heap_.mutex);
  std::size_t take_behind_waits(const Request& request, std::span<const OwnerId> owners)
      BERTH_REQUIRES(heap_.slow_mutex) BERTH_EXCLUDES(heap_.mutex);
  /// Opens it to all. Returns how many blocks.
  std::size_t open_one(const Freed& freed) BERTH_REQUIRES(heap_.mutex);
  /// Whether neither a hole nor whole granules that are the request's own or unowned would serve
  /// it.
  [[nodiscard]] bool lacks_memory(const Request& request) const BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] bool has_fit(OwnerId owner, const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  [[nodiscard]] bool can_donate(OwnerId owner) const BERTH_REQUIRES(heap_.mutex);
  /// Streams that have what the request lacks, in the order in which to take it.
  [[nodiscard]] std::vector<OwnerId> find_donors(const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  /// Other owners whose deferred frees may come free behind waits, where the request lacks memory.
  [[nodiscard]] std::vector<OwnerId> find_owners_held_up(const Request& request) const
      BERTH_REQUIRES(heap_.mutex);
  /// The graph of a valid capture, if any, holds the block from now on. Whether there is a graph.
  bool hold_for(const CaptureState& capture, void* data, StreamRef stream, const char* action)
      BERTH_EXCLUDES(heap_.mutex);
  void hold_while_it_exists(const CaptureState& capture, void* data, StreamRef stream,
                            const char* action) BERTH_EXCLUDES(heap_.mutex);
  void hold_forever(void* data, const char* action) BERTH_EXCLUDES(heap_.mutex);
  /// Errors  std::bad_alloc: nothing is changed.
  void hold(Block& block) BERTH_REQUIRES(heap_.mutex);
  /// Undoes one hold().
  void release_hold(Block& block) noexcept BERTH_REQUIRES(heap_.mutex);
  /// A pending block has no use left that its owner's stream does not wait for.
  void release_deferred(Block& block) BERTH_REQUIRES(heap_.mutex);
  /// The same of `to`'s stream, that waits for the owner's as well.
  void release_deferred(Block& block, OwnerId to) BERTH_REQUIRES(heap_.mutex);
  void seal(OwnerId stream) BERTH_EXCLUDES(heap_.mutex);
  class HandleUse;
  std::size_t complete(OwnerId stream, const RecordedEvent& end) BERTH_EXCLUDES(heap_.mutex);
  /// The driver says that the handle of a stream is none: it was destroyed behind berth's back.
  void quarantine(OwnerId owner, const Error& error) BERTH_EXCLUDES(heap_.mutex);
  /// Waits until the device is idle; false where that would break a capture, or cannot be.
  bool synchronize(DeviceContext& context) const BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);
  void forget_streams() noexcept BERTH_REQUIRES(heap_.mutex);
  void retire_here(StreamRef stream) BERTH_EXCLUDES(heap_.slow_mutex, heap_.mutex);

  SharedHeap& heap_;
  const Driver& driver_;
  const Events events_;
  const bool graphs_hold_;
  std::condition_variable_any handle_use_ended_;  ///< of a stream that is going away
  BlockUses uses_ BERTH_GUARDED_BY(heap_.mutex);
  GraphHolds holds_;  ///< guarded by heap_.mutex, except for hand_over()
  QuiescenceStats quiescence_ BERTH_GUARDED_BY(heap_.slow_mutex);
  // Of the question whether there is a lull, and kept for their capacity.
  std::vector<OwnerId> quiescence_owners_ BERTH_GUARDED_BY(heap_.slow_mutex);
  std::vector<Freed> quiescence_idle_ BERTH_GUARDED_BY(heap_.slow_mutex);
  std::size_t streams_kept_ BERTH_GUARDED_BY(heap_.mutex) = 0;  ///< by the last forget_streams()
};

}  // namespace berth
