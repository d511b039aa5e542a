// SPDX-License-Identifier: Apache-2.0
// The host's share of staged copies. It has no threads of its own:
//
// workers        move pieces, open gates, and read the words in which the device reports progress.
//                  They make no driver call: nothing that happens inside the driver can stop them.
//   one poller     occasionally queries the driver about the oldest copy of a stream, to notice a
//                  device that has failed and writes no words. It opens no gate.
//   waiters        do the host's share of the copies of their stream, and block in the driver only
//                  for work that the device completes without the host.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "berth/error.hpp"

#include "base/mutex.hpp"
#include "copy/staged/ready_copies.hpp"
#include "copy/staged/staged_copy.hpp"

namespace berth {

/// The staged copies of one stream, in its order. The device reaches one after the other, so only
/// the first of each lane has to be looked at, however many there are.
struct CopyLane {
  /// Held while a copy joins the lane and is submitted, so that the order of the lane is the
  /// stream's.
  Mutex submission;

  // Guarded by the lock of the HostWork that has all copies of the lane.
  std::list<std::shared_ptr<StagedCopy>> copies;           ///< pending, oldest first
  std::list<std::shared_ptr<CopyLane>>::iterator place{};  ///< among lanes with copies
};

/// Threads  Safe from any thread.
class HostWork {
 public:
  using CopyPtr = std::shared_ptr<StagedCopy>;
  using LanePtr = std::shared_ptr<CopyLane>;
  /// Called once for each copy that was started, when it is over: without a lock, on the thread
  /// that observes the end.
  using OnOver = std::function<void(StagedCopy& copy)>;

  /// One thread's part of a copy.
  struct Task {
    CopyPtr copy;
    StagedCopy::Piece piece;

    void move() const noexcept { copy->move(piece); }
  };

  explicit HostWork(OnOver on_over) : on_over_(std::move(on_over)) {}

  /// Submits the copy behind those of its lane, which is its stream's. Lower priorities go first. A
  /// copy that shares its slots gets them after the copies that were started with them before.
  /// Waits for the stream if the copy would have more than StagedCopy::kEntriesMax entries in its
  /// queue.
  /// Errors  DriverError, OutOfMemory: the copy is over.
  void start(const CopyPtr& copy, const LanePtr& lane, int priority, EventPool& events)
      BERTH_EXCLUDES(mutex_);

  // Without a driver call.
  /// The next piece to move; nullopt if there is none now.
  std::optional<Task> take() BERTH_EXCLUDES(mutex_);
  /// It has been moved.
  void finish(const Task& task) BERTH_EXCLUDES(mutex_);
  /// Takes a piece, moves it, and finishes it; false if there is none.
  bool help() BERTH_EXCLUDES(mutex_);
  /// The same, but another thread ends the copy: nothing that it holds is freed here.
  bool move_piece() BERTH_EXCLUDES(mutex_);
  /// Does all that can be done now for the copies of a lane.
  void help_lane(const LanePtr& lane) BERTH_EXCLUDES(mutex_);
  /// Reads the progress words of all lanes. Returns whether any copy has advanced.
  bool look() BERTH_EXCLUDES(mutex_);

  // For workers.
  /// Returns when there is a piece to move; false after stop(). One of the threads that wait here
  /// reads the words meanwhile.
  bool await_piece() BERTH_EXCLUDES(mutex_);
  void stop() BERTH_EXCLUDES(mutex_);

  // For the poller.
  /// Queries the driver about the oldest copies of up to `streams` streams, beginning with those
  /// that were queried the longest ago. If the driver reports only a failure, the copy ends with
  /// it, and so do those after it.
  void ask_device(std::size_t streams) BERTH_EXCLUDES(mutex_);

  // For threads that wait.
  /// Returns when the copy is over: true if it had to wait for the device.
  bool complete(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Returns when the host has done its share: everything has been read or has arrived, or the copy
  /// has been given up, and no thread will access the host's end again. Likewise.
  bool complete_host_side(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The same, but leaves all work to the other threads.
  void await_host_side(const CopyPtr& copy) noexcept BERTH_EXCLUDES(mutex_);
  /// Completes all pending copies.
  void complete_all() BERTH_EXCLUDES(mutex_);

  /// Gives the copy up, unless it is over: its gate may then belong to another copy.
  void cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);
  /// The failure of all copies that their callers cancel, made in advance: there may be no memory
  /// for it later.
  [[nodiscard]] const std::exception_ptr& cancelled() const { return cancelled_; }

  [[nodiscard]] std::size_t copies_under_way() const BERTH_EXCLUDES(mutex_);

 private:
  void add(const CopyPtr& copy, const LanePtr& lane, int priority) BERTH_EXCLUDES(mutex_);
  void submit(const CopyPtr& copy, EventPool& events) BERTH_EXCLUDES(mutex_);
  /// Handles a failed submission.
  void close(const CopyPtr& copy, std::exception_ptr failure, EventPool& events) noexcept
      BERTH_EXCLUDES(mutex_);
  void end_submission(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);

  /// The first copy of its lane, which the device reaches next; null once `copy` is over.
  CopyPtr first_of_lane(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);
  bool help_with(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// One step of a thread that waits for a copy: the host's share of the first copy of its lane, or
  /// a wait. Returns whether it was a wait for the device.
  bool go_on(const CopyPtr& first) BERTH_EXCLUDES(mutex_);
  /// Blocks until the device has passed the copy's next mark, or briefly if other threads have work
  /// to do first. Returns whether it waited for the device.
  bool wait_for_progress(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  bool look_at(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);

  /// Queries a mark of the copy by `ask`, and once more if that fails. False if the second query
  /// fails, too, and the copy with it. The copy may end meanwhile.
  template <class Ask>
  bool ask_about(const CopyPtr& copy, const StagedCopy::Mark& mark, const Ask& ask)
      BERTH_EXCLUDES(mutex_);
  /// The next query of a round; nullopt if there is nothing to query.
  struct Question {
    CopyPtr copy;
    StagedCopy::Mark mark;
    LanePtr lane;
  };
  std::optional<Question> next_question() BERTH_EXCLUDES(mutex_);
  std::optional<Question> question_about(const CopyPtr& copy) BERTH_REQUIRES(mutex_);

  /// Returns whether the first copies of the lane have advanced. Those that are over go to `over`.
  bool advance(CopyLane& lane, CopyPtr& over) BERTH_REQUIRES(mutex_);
  void note_pieces(StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// If nothing is left to do for the copy, it is pending no more, the next copy may use its slots,
  /// and it heads the list `over`.
  bool take_out_if_over(const CopyPtr& copy, CopyPtr& over) BERTH_REQUIRES(mutex_);
  /// Frees what the copies of the list hold.
  void end(CopyPtr over) BERTH_EXCLUDES(mutex_);
  void end_if_over(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The piece has been moved: opens the gates that waited for it.
  void note_finished(const Task& task) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] static bool is_host_side_done(const StagedCopy& copy);

  const OnOver on_over_;
  const std::exception_ptr cancelled_ =
      std::make_exception_ptr(Cancelled("the transfer has been cancelled"));
  mutable Mutex mutex_;
  std::condition_variable_any changed_;  ///< for waiters
  std::condition_variable_any pieces_;   ///< for workers
  ReadyCopies copies_ BERTH_GUARDED_BY(mutex_);
  /// Those with pending copies, in the order in which they are queried.
  std::list<LanePtr> lanes_ BERTH_GUARDED_BY(mutex_);
  bool is_watched_ BERTH_GUARDED_BY(mutex_) = false;  ///< a worker reads the words
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
