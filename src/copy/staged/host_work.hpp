// SPDX-License-Identifier: Apache-2.0
// What the host has to do for staged copies, and who does it. It has no threads of its own:
//
//   workers        move pieces, open gates, and read the words that say how far the device is. They
//                  call no driver function: nothing that happens inside the driver can stop them.
//   one poller     seldom asks the driver about the oldest copy of each stream, to notice a device
//                  that has failed and writes no words. It opens no gate.
//   waiters        do the host's share of the copies of their stream, and block in the driver only
//                  for what the device reaches without the host.
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
  std::list<std::shared_ptr<StagedCopy>> copies;           ///< under way, oldest first
  std::list<std::shared_ptr<CopyLane>>::iterator place{};  ///< among lanes with copies
};

/// Threads  Safe from any thread.
class HostWork {
 public:
  using CopyPtr = std::shared_ptr<StagedCopy>;
  using LanePtr = std::shared_ptr<CopyLane>;
  /// Gets each copy that was started, when it is over. Called once, without a lock, on the thread
  /// that finds it.
  using OnOver = std::function<void(StagedCopy& copy)>;

  /// One thread's part of a copy.
  struct Task {
    CopyPtr copy;
    StagedCopy::Piece piece;

    void move() const noexcept { copy->move(piece); }
  };

  explicit HostWork(OnOver on_over) : on_over_(std::move(on_over)) {}

  /// Submits the copy behind those of its lane, which is its stream's. Lower priorities first. A
  /// copy that shares its slots has its turn after those that were started with the same before it.
  /// Waits for the stream where the copy would have more than StagedCopy::kEntriesMax entries in
  /// its queue.
  /// Errors  DriverError, OutOfMemory: the copy is over.
  void start(const CopyPtr& copy, const LanePtr& lane, int priority, EventPool& events)
      BERTH_EXCLUDES(mutex_);

  // Without a driver call.
  /// The next piece to move; nullopt where there is none now.
  std::optional<Task> take() BERTH_EXCLUDES(mutex_);
  /// It has been moved.
  void finish(const Task& task) BERTH_EXCLUDES(mutex_);
  /// Takes a piece, moves it, and finishes it; false where there is none.
  bool help() BERTH_EXCLUDES(mutex_);
  /// The same, and leaves the end of the copy to another thread: what it holds is not freed here.
  bool move_piece() BERTH_EXCLUDES(mutex_);
  /// Does what can be done now for copies of a lane.
  void help_lane(const LanePtr& lane) BERTH_EXCLUDES(mutex_);
  /// Reads how far the device is. Whether any copy has gone on.
  bool look() BERTH_EXCLUDES(mutex_);

  // For workers.
  /// Returns once there is a piece to move; false after stop(). One thread of those that wait here
  /// reads the words meanwhile.
  bool await_piece() BERTH_EXCLUDES(mutex_);
  void stop() BERTH_EXCLUDES(mutex_);

  // For the poller.
  /// Asks the driver about the oldest copies of up to `streams` streams, those first that have not
  /// been asked about for longest. A copy of which the driver only says that something has failed
  /// ends with that, and so do those after it.
  void ask_device(std::size_t streams) BERTH_EXCLUDES(mutex_);

  // For threads that wait.
  /// Returns once the copy is over. Whether the device had to be waited for.
  bool complete(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Returns once the host has done its share: all has been read, or has arrived, or the copy has
  /// been given up, and no thread will touch the host's end again. Likewise.
  bool complete_host_side(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The same, and leaves all that is to be done to the other threads.
  void await_host_side(const CopyPtr& copy) noexcept BERTH_EXCLUDES(mutex_);
  /// Completes copies until none is under way.
  void complete_all() BERTH_EXCLUDES(mutex_);

  /// Gives the copy up, unless it is over: its gate is another's then.
  void cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);
  /// The failure of a copy that its caller cancels, of all such copies: there may be no memory for
  /// one then.
  [[nodiscard]] const std::exception_ptr& cancelled() const { return cancelled_; }

  [[nodiscard]] std::size_t copies_under_way() const BERTH_EXCLUDES(mutex_);

 private:
  void add(const CopyPtr& copy, const LanePtr& lane, int priority) BERTH_EXCLUDES(mutex_);
  void submit(const CopyPtr& copy, EventPool& events) BERTH_EXCLUDES(mutex_);
  /// Submission has failed.
  void close(const CopyPtr& copy, std::exception_ptr failure, EventPool& events) noexcept
      BERTH_EXCLUDES(mutex_);
  void end_submission(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);

  /// Of the copies of its lane the one that the device gets to next; null once `copy` is over.
  CopyPtr first_of_lane(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);
  bool help_with(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// One step of a thread that waits for a copy: the host's share of the first of its lane, or a
  /// wait. Whether the device was waited for.
  bool go_on(const CopyPtr& first) BERTH_EXCLUDES(mutex_);
  /// Blocks until the device has come to the copy's next mark, or for a moment where others have to
  /// do something first. Whether it was the device.
  bool wait_for_progress(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  bool look_at(const StagedCopy& copy) BERTH_EXCLUDES(mutex_);

  /// Puts a question about a mark of the copy to the driver, and once more where the answer fails.
  /// False where that fails too, and the copy with it. The copy may come to its end meanwhile.
  template <class Ask>
  bool ask_about(const CopyPtr& copy, const StagedCopy::Mark& mark, const Ask& ask)
      BERTH_EXCLUDES(mutex_);
  /// The next of a round of questions; nullopt where there is nothing to ask about.
  struct Question {
    CopyPtr copy;
    StagedCopy::Mark mark;
    LanePtr lane;
  };
  std::optional<Question> next_question() BERTH_EXCLUDES(mutex_);
  std::optional<Question> question_about(const CopyPtr& copy) BERTH_REQUIRES(mutex_);

  /// Whether the first of the lane has gone on; those that are over by that go to `over`.
  bool advance(CopyLane& lane, CopyPtr& over) BERTH_REQUIRES(mutex_);
  void note_pieces(StagedCopy& copy) BERTH_REQUIRES(mutex_);
  /// Where nothing is left to do for it, the copy is under way no more, and heads the list `over`.
  bool take_out_if_over(const CopyPtr& copy, CopyPtr& over) BERTH_REQUIRES(mutex_);
  /// Ends the copies of the list, and those after them that are over by then.
  void end(CopyPtr over) BERTH_EXCLUDES(mutex_);
  void end_if_over(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// It has been moved, and the gates that this opens are open.
  void note_finished(const Task& task) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] static bool is_host_side_done(const StagedCopy& copy);

  const OnOver on_over_;
  const std::exception_ptr cancelled_ =
      std::make_exception_ptr(Cancelled("the transfer has been cancelled"));
  mutable Mutex mutex_;
  std::condition_variable_any changed_;  ///< for who waits
  std::condition_variable_any pieces_;   ///< for workers
  ReadyCopies copies_ BERTH_GUARDED_BY(mutex_);
  /// With copies under way, in the order in which they are asked about.
  std::list<LanePtr> lanes_ BERTH_GUARDED_BY(mutex_);
  bool is_watched_ BERTH_GUARDED_BY(mutex_) = false;  ///< a worker reads the words
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
