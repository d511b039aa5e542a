// SPDX-License-Identifier: Apache-2.0
// The host work of staged copies. It has no threads of its own:
//
//   workers        move pieces, open gates, and read the words in which the device reports its
//                  progress. They make no driver call, so they cannot block inside the driver.
//   device watch   occasionally queries the driver about the oldest copy of a stream, to detect a
//                  failed device, which writes no words. Nothing waits for it to open a gate. It
//                  releases the owners of complete copies, because their destructors, which are
//                  the program's, may call the driver.
//   waiters        do the host work of the copies of their stream, and block in the driver only for
//                  work that the device completes without the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "copy/staged/gate_trial.hpp"
#include "copy/staged/ready_copies.hpp"
#include "copy/staged/staged_copy.hpp"

namespace berth {

/// The staged copies of one stream, in stream order. The device executes them in this order, so
/// only the first copy of each lane is polled.
struct CopyLane {
  /// Held while a copy is added to the lane and submitted, so that the lane has the order of the
  /// stream.
  Mutex submission;

  // Guarded by the lock of the HostWork that has all copies of the lane.
  std::list<std::shared_ptr<StagedCopy>> copies;           ///< pending, oldest first
  std::list<std::shared_ptr<CopyLane>>::iterator place{};  ///< among lanes with copies

  /// Of a lane in the list, which leaves it with its last copy.
  [[nodiscard]] const std::shared_ptr<StagedCopy>& first() const {
    BERTH_CHECK(!copies.empty());
    return copies.front();
  }
};

/// The answer to a query of a mark.
enum class MarkState { completed, not_yet, failed };

/// Threads  Safe from any thread.
class HostWork {
 public:
  using CopyPtr = std::shared_ptr<StagedCopy>;
  using LanePtr = std::shared_ptr<CopyLane>;
  /// Called once for each started copy when it is complete: without a lock, on the thread that
  /// observes the completion.
  using OnComplete = std::function<void(StagedCopy& copy)>;
  /// Called without a lock when release_owners() has something to do.
  using OnOwner = std::function<void()>;

  /// A piece of a copy, for one thread.
  struct Task {
    CopyPtr copy;
    StagedCopy::Piece piece;

    void move() const noexcept { copy->move(piece); }
  };

  explicit HostWork(OnComplete on_complete, OnOwner on_owner = nullptr)
      : on_complete_(std::move(on_complete)), on_owner_(std::move(on_owner)) {}
  ~HostWork() { release_owners(); }

  /// Submits the copy behind the copies of its lane, which is the lane of its stream. Lower
  /// priorities go first. A copy that shares its slots uses them after earlier copies. Waits for
  /// the stream if the copy would have more than StagedCopy::kEntriesMax entries in its queue.
  /// `trial` may be null; otherwise the copy begins with a gate. The trial has a result if the gate
  /// has been submitted and the copy has not failed meanwhile.
  /// Errors  DriverError, OutOfMemory: the copy is complete.
  void start(const CopyPtr& copy, const LanePtr& lane, int priority, EventPool& events,
             GateTrial* trial = nullptr) BERTH_EXCLUDES(mutex_);

  // Without a driver call.
  /// The next piece to move; nullopt if there is currently none.
  std::optional<Task> take() BERTH_EXCLUDES(mutex_);
  /// The piece has been moved.
  void finish(const Task& task) BERTH_EXCLUDES(mutex_);
  /// Takes a piece, moves it, and finishes it; false if there is none.
  bool process_piece() BERTH_EXCLUDES(mutex_);
  /// The same, but another thread completes the copy, so this call frees nothing that the copy
  /// holds.
  bool move_piece() BERTH_EXCLUDES(mutex_);
  /// Does all host work that is currently possible for the copies of a lane.
  void process_lane(const LanePtr& lane) BERTH_EXCLUDES(mutex_);
  /// Reads the progress words of all lanes. Returns whether any copy has advanced.
  bool poll_progress() BERTH_EXCLUDES(mutex_);

  // For workers.
  /// Returns when there is a piece to move; false after stop(). One of the waiting threads polls
  /// the words meanwhile.
  bool wait_for_piece() BERTH_EXCLUDES(mutex_);
  void stop() BERTH_EXCLUDES(mutex_);

  // For the device watch.
  /// Queries the driver about the oldest copies of up to `streams` streams, least recently queried
  /// first. If a repeated query fails too, the copy fails, and so do the copies behind it.
  void query_device(std::size_t streams) BERTH_EXCLUDES(mutex_);
  /// Releases the owners of complete copies.
  void release_owners() BERTH_EXCLUDES(mutex_);

  // For threads that wait.
  /// Returns when the copy is complete: true if the call waited for the device.
  bool complete(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Returns when the host work is done: everything has been read or has arrived, or the copy has
  /// failed, and no thread will access the host end again. Returns the same as complete().
  bool complete_host_side(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The same, but leaves all work to other threads.
  void wait_for_host_side(const CopyPtr& copy) noexcept BERTH_EXCLUDES(mutex_);
  /// Completes all pending copies.
  void complete_all() BERTH_EXCLUDES(mutex_);

  /// Fails the copy, unless it is complete. The gate of a complete copy may belong to another copy.
  void cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);
  /// The failure of cancelled copies, allocated in advance because there may be no memory later.
  [[nodiscard]] const std::exception_ptr& cancelled() const { return cancelled_; }

  [[nodiscard]] std::size_t copies_under_way() const BERTH_EXCLUDES(mutex_);

 private:
  struct OnTrial {
    CopyPtr copy;
    GateTrial* trial;  ///< owned by the thread that submits the copy
  };

  void add(const CopyPtr& copy, const LanePtr& lane, int priority, GateTrial* trial)
      BERTH_EXCLUDES(mutex_);
  void submit(const CopyPtr& copy, EventPool& events, GateTrial* trial) BERTH_EXCLUDES(mutex_);
  using Trials = std::vector<OnTrial>;
  [[nodiscard]] Trials::iterator find_trial(const StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// The submission of the gate has returned, or has failed.
  void end_trial(const CopyPtr& copy, bool is_submitted) noexcept BERTH_EXCLUDES(mutex_);
  /// The copy may have opened its first gate.
  void note_open_gate(const StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// Lets the host work of copies begin whose gate takes too long to submit.
  void admit_overdue() BERTH_REQUIRES(mutex_);
  /// Handles a failed submission.
  void close(const CopyPtr& copy, std::exception_ptr failure, EventPool& events) noexcept
      BERTH_EXCLUDES(mutex_);
  void end_submission(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);

  /// The first copy of the lane, which the device executes next; null once `copy` is complete.
  CopyPtr first_of_lane(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);
  bool process_piece_of(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// One step of a thread that waits for a copy: host work for the first copy of its lane, or a
  /// wait. Returns whether it waited for the device.
  bool progress_or_wait(const CopyPtr& first) BERTH_EXCLUDES(mutex_);
  /// Blocks until the device has passed the copy's next mark, or briefly if other threads have work
  /// to do first. Returns whether the call waited for the device.
  bool wait_for_progress(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  bool poll_copy(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);

  /// Queries a mark of the copy by `query`. If that fails, and so do other calls for the device,
  /// fails the copy. The copy may complete meanwhile.
  template <class Query>
  MarkState query_mark(const CopyPtr& copy, const StagedCopy::Mark& mark, const Query& query)
      BERTH_EXCLUDES(mutex_);
  /// The mark to query next; nullopt if there is none.
  struct MarkQuery {
    CopyPtr copy;
    StagedCopy::Mark mark;
    LanePtr lane;
  };
  std::optional<MarkQuery> next_query() BERTH_EXCLUDES(mutex_);
  std::optional<MarkQuery> query_for(const CopyPtr& copy) BERTH_REQUIRES(mutex_);

  /// Returns whether the first copies of the lane have advanced. Complete copies are added to the
  /// list `completed`.
  bool advance(CopyLane& lane, CopyPtr& completed) BERTH_REQUIRES(mutex_);
  void update_ready(StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// The device executes none of the copy's remaining steps.
  void end_device(StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// If nothing is left to do for the copy, it is no longer pending, the next copy may use its
  /// slots, and it becomes the head of the list `over`.
  bool remove_if_complete(const CopyPtr& copy, CopyPtr& completed) BERTH_REQUIRES(mutex_);
  /// Frees what the copies of the list hold. Copies with an owner are left to a thread that may
  /// call the driver: the device watch, or one that waits for the copy.
  void end(CopyPtr completed) BERTH_EXCLUDES(mutex_);
  void leave_owner(CopyPtr copy) BERTH_EXCLUDES(mutex_);
  /// Takes the copy from the list of those with owners; false if another thread has it.
  bool take_from_owned(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  void release_owner(StagedCopy& copy) BERTH_EXCLUDES(mutex_);
  void end_if_complete(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The piece has been moved: opens the gates that waited for it.
  void finish_piece(const Task& task) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] static bool is_host_side_done(const StagedCopy& copy);

  const OnComplete on_complete_;
  const OnOwner on_owner_;
  const std::exception_ptr cancelled_ =
      std::make_exception_ptr(Cancelled("the transfer has been cancelled"));
  mutable Mutex mutex_;
  ConditionVariable changed_;  ///< for waiters
  ConditionVariable pieces_;   ///< for workers
  ReadyCopies copies_ BERTH_GUARDED_BY(mutex_);
  CopyPtr owned_ BERTH_GUARDED_BY(mutex_);    ///< a list of complete copies, but for their owners
  Trials on_trial_ BERTH_GUARDED_BY(mutex_);  ///< withheld copies; rarely any
  /// Lanes with pending copies, in the order of queries.
  std::list<LanePtr> lanes_ BERTH_GUARDED_BY(mutex_);
  bool is_polled_ BERTH_GUARDED_BY(mutex_) = false;  ///< a worker reads the words
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
