// SPDX-License-Identifier: Apache-2.0
// What a Transfer knows of a copy, however that travels.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "berth/event_pool.hpp"
#include "berth/transfer.hpp"

#include "base/mutex.hpp"
#include "copy/staged/host_work.hpp"

namespace berth {

/// Threads  Safe from any thread.
class TransferState {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TransferState(std::size_t bytes) : bytes_(bytes) {}
  virtual ~TransferState() = default;
  TransferState(const TransferState&) = delete;
  TransferState& operator=(const TransferState&) = delete;

  /// Asks the device where that is needed; a failure counts as an end.
  virtual bool is_done() = 0;
  /// Returns once it is over, with failure() or without.
  virtual void wait() = 0;
  [[nodiscard]] virtual std::exception_ptr failure() const = 0;
  virtual std::size_t bytes_done() = 0;
  virtual void cancel() noexcept = 0;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  double bytes_per_second();

 private:
  const std::size_t bytes_;
  const Clock::time_point start_ = Clock::now();
  Mutex mutex_;
  Clock::time_point end_ BERTH_GUARDED_BY(mutex_){};  ///< when it was first seen to be over
};

/// Through staging memory.
class StagedTransfer final : public TransferState {
 public:
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy)
      : StagedTransfer(work, copy, 0, copy->bytes()) {}
  /// Of whose row `bytes` behind the first `bytes_before` count.
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, std::size_t bytes_before,
                 std::size_t bytes)
      : TransferState(bytes), work_(work), copy_(std::move(copy)), bytes_before_(bytes_before) {}

  bool is_done() override;
  void wait() override { work_.complete(copy_); }
  [[nodiscard]] std::exception_ptr failure() const override { return copy_->failure(); }
  std::size_t bytes_done() override;
  void cancel() noexcept override;

 private:
  HostWork& work_;
  const HostWork::CopyPtr copy_;
  const std::size_t bytes_before_;
};

/// By the device alone, in steps: there is an event behind each.
class DirectTransfer final : public TransferState {
 public:
  using TransferState::TransferState;

  /// The next step has been submitted, of so many bytes, and `mark` is recorded behind it. Before anyone
  /// else knows of this.
  void add_step(EventLease mark, std::size_t bytes) BERTH_NO_THREAD_SAFETY_ANALYSIS {
    steps_.push_back({std::move(mark), bytes});
  }
  /// For marks that are not captured.
  bool is_done() override BERTH_EXCLUDES(mutex_);
  void wait() override BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::exception_ptr failure() const override BERTH_EXCLUDES(mutex_);
  std::size_t bytes_done() override BERTH_EXCLUDES(mutex_);
  void cancel() noexcept override {}

 private:
  struct Step {
    EventLease mark;
    std::size_t bytes;
  };

  /// Asks for steps until one has not passed.
  void ask() BERTH_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Step> steps_ BERTH_GUARDED_BY(mutex_);
  std::size_t passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_passed_ BERTH_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ BERTH_GUARDED_BY(mutex_);
};

/// By the host, which is about to do it before anyone else knows of this.
class HostTransfer final : public TransferState {
 public:
  using TransferState::TransferState;

  bool is_done() override { return true; }
  void wait() override {}
  [[nodiscard]] std::exception_ptr failure() const override { return nullptr; }
  std::size_t bytes_done() override { return bytes(); }
  void cancel() noexcept override {}
};

}  // namespace berth
