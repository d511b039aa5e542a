// SPDX-License-Identifier: Apache-2.0
// The state of a Transfer whose copy the device makes alone.
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
  /// `is_lent`: the device uses pageable memory of the caller's, who may free it once the last
  /// Transfer is gone.
  explicit DirectTransfer(std::size_t bytes, bool is_lent = false)
      : TransferState(bytes), is_lent_(is_lent) {}

  /// The next step, of `bytes`, has been submitted, and `mark` is recorded behind it. Before any
  /// other thread has this object.
  void add_step(EventLease mark, std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS;
  /// For marks that are not captured.
  bool is_done() override BERTH_EXCLUDES(mutex_);
  void wait() override BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::exception_ptr failure() const override BERTH_EXCLUDES(mutex_);
  std::size_t bytes_done() override BERTH_EXCLUDES(mutex_);
  void cancel() noexcept override {}
  void let_go() noexcept override BERTH_EXCLUDES(mutex_);
  void detach() noexcept override { is_lent_ = false; }

 private:
  struct Step {
    EventLease mark;
    std::size_t bytes;
  };

  /// Queries the marks of the steps, until one has not passed.
  void ask() BERTH_REQUIRES(mutex_);

  std::atomic<bool> is_lent_;
  mutable Mutex mutex_;
  std::vector<Step> steps_ BERTH_GUARDED_BY(mutex_);
  std::size_t passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
