// SPDX-License-Identifier: Apache-2.0
// The state of a Transfer whose copy needs no host work.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "berth/event_pool.hpp"

#include "base/mutex.hpp"
#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// The copy consists of steps, each followed by an event.
/// Threads  Safe from any thread.
class DirectTransfer final : public TransferState {
 public:
  /// `is_borrowed`: the device uses the caller's pageable memory, which the caller may free once
  /// the last Transfer is destroyed.
  explicit DirectTransfer(std::size_t bytes, bool is_borrowed = false)
      : TransferState(bytes), is_borrowed_(is_borrowed) {}

  /// The next step, of `bytes`, has been submitted, and `mark` is recorded behind it. Called before
  /// other threads use this object.
  void add_step(EventLease mark, std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// The marks are not captured.
  bool is_done() override BERTH_EXCLUDES(mutex_);
  void wait() override BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::exception_ptr failure() const override BERTH_EXCLUDES(mutex_);
  std::size_t bytes_done() override BERTH_EXCLUDES(mutex_);
  void cancel() noexcept override {}
  void abandon() noexcept override BERTH_EXCLUDES(mutex_);
  void detach() noexcept override { is_borrowed_ = false; }

 private:
  struct Step {
    EventLease mark;
    std::size_t bytes;
  };

  /// Queries the marks of the steps, up to the first that has not completed.
  void poll_marks() BERTH_REQUIRES(mutex_);

  std::atomic<bool> is_borrowed_;
  mutable Mutex mutex_;
  std::vector<Step> steps_ BERTH_GUARDED_BY(mutex_);
  std::size_t bytes_added_ BERTH_GUARDED_BY(mutex_) = 0;  ///< of all steps
  std::size_t passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
