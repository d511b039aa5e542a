// SPDX-License-Identifier: Apache-2.0
// What the host has to do for staged copies, and in which order: the most urgent first, and those that
// are as urgent in turns, a piece each, so that a small copy is not behind a large one. It has no
// threads of its own: workers do it, and whoever waits for a copy helps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "copy/staged/staged_copy.hpp"

namespace berth {

/// Threads  Safe from any thread.
class HostWork {
 public:
  using CopyPtr = std::shared_ptr<StagedCopy>;
  /// Gets each copy that was added, when it is over. Called once, without a lock, on the thread that
  /// finds it.
  using OnOver = std::function<void(StagedCopy& copy)>;

  /// One thread's part of a copy.
  struct Task {
    CopyPtr copy;
    StagedCopy::Piece piece;

    void move() const noexcept { copy->move(piece); }
  };

  explicit HostWork(OnOver on_over) : on_over_(std::move(on_over)) {}

  /// Lower priorities first. A copy that shares its slots has its turn after those that were added with the
  /// same before it.
  void add(const CopyPtr& copy, int priority) BERTH_EXCLUDES(mutex_);

  /// After StagedCopy::submit().
  void end_submission(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);

  /// The next piece to move; nullopt where there is none now.
  std::optional<Task> take() BERTH_EXCLUDES(mutex_);
  /// It has been moved.
  void finish(const Task& task) BERTH_EXCLUDES(mutex_);
  /// Takes a piece, moves it, and finishes it; false where there is none.
  bool help() BERTH_EXCLUDES(mutex_);
  /// Asks the device how far it is, for each copy that no other thread asks for. Whether any has gone
  /// on.
  bool look() BERTH_EXCLUDES(mutex_);

  // For threads that have nothing else to do.
  /// Sleeps until something is added, moved or passed; where copies are under way no longer than `nap`.
  /// False after stop().
  bool sleep(std::chrono::nanoseconds nap) BERTH_EXCLUDES(mutex_);
  void stop() BERTH_EXCLUDES(mutex_);

  // For threads that wait: they do the copy's share, and wait for the device in the driver.
  /// Returns once the copy is over. Whether the device had to be waited for.
  bool complete(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Returns once the host has done its share: all has been read, or has arrived, or the copy has been given
  /// up, and no thread will touch the host's end again. Likewise.
  bool complete_host_side(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// The same, and leaves all that is to be done to the other threads.
  void await_host_side(const CopyPtr& copy) noexcept BERTH_EXCLUDES(mutex_);
  /// The oldest copy under way on that device; null where there is none.
  CopyPtr oldest(const DeviceContext& context) BERTH_EXCLUDES(mutex_) { return oldest(&context); }
  /// Completes the oldest copy under way until there is none.
  void complete_all() BERTH_EXCLUDES(mutex_);

  /// Gives the copy up, unless it is over: its gate is another's then.
  void cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);
  /// The copy could not be submitted as a whole: it is over when this returns.
  void abandon(const CopyPtr& copy, std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);

  [[nodiscard]] std::size_t copies_under_way() const BERTH_EXCLUDES(mutex_);

 private:
  struct Entry {
    CopyPtr copy;
    int priority;
  };

  bool help_with(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  void join_turns(const CopyPtr& copy) BERTH_REQUIRES(mutex_);
  /// Of those before it the one that has its turn; `copy` itself where it has.
  CopyPtr with_turn(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Returns once `copy` has its turn. Does the host's share of the copies before it, and waits for the
  /// device.
  void complete_those_before(const CopyPtr& copy) noexcept BERTH_EXCLUDES(mutex_);
  /// Puts the driver's question `ask` about the copy's next step; true where the step has passed. False
  /// also where there is nothing to ask about.
  template <class Ask>
  bool ask_about_step(const CopyPtr& copy, const Ask& ask) BERTH_EXCLUDES(mutex_);
  bool look_at(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Where the driver has failed to answer: waits until the device is done with what was submitted, all
  /// of whose gates are open.
  void settle_if_failed(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  /// Waits for the device's next step, or a little where that is not submitted yet, or others have to
  /// do something first. Whether it was the device.
  bool wait_for_progress(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  void retire_if_over(const CopyPtr& copy) BERTH_EXCLUDES(mutex_);
  CopyPtr oldest(const DeviceContext* context) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] bool is_host_side_done(const StagedCopy& copy) const BERTH_REQUIRES(mutex_);

  const OnOver on_over_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Entry> under_way_ BERTH_GUARDED_BY(mutex_);  ///< oldest first
  std::size_t turn_ BERTH_GUARDED_BY(mutex_) = 0;          ///< whose is next
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
