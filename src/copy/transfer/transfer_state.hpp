// SPDX-License-Identifier: Apache-2.0
// The state behind a Transfer; each path has its own class.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>

#include "berth/transfer.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
class TransferState {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TransferState(std::size_t bytes) : bytes_(bytes) {}
  virtual ~TransferState() = default;
  TransferState(const TransferState&) = delete;
  TransferState& operator=(const TransferState&) = delete;

  /// Queries the device if necessary. True for a failed copy.
  virtual bool is_done() = 0;
  /// Returns when the copy is complete; failure() has the result.
  virtual void wait() = 0;
  [[nodiscard]] virtual std::exception_ptr failure() const = 0;
  virtual std::size_t bytes_done() = 0;
  virtual void cancel() noexcept = 0;
  /// The program will learn of a failure, so it is not reported to the sink.
  virtual void suppress_failure_report() noexcept {}
  /// Called when the last Transfer is destroyed. Returns when no thread will access the caller's
  /// memory any more. A failure that the program has not observed is reported to the sink.
  virtual void abandon() noexcept {}
  /// The caller keeps its memory valid until the transfer is over, so abandon() does not wait.
  virtual void detach() noexcept {}

  /// False in a forked child, which has neither the threads nor the device. Check before any other
  /// call.
  [[nodiscard]] bool is_here() const { return origin_.is_here(); }
  /// Errors  NotSupported.
  void require_here() const { origin_.require_here("a transfer"); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  double bytes_per_second();

 private:
  const ForkOrigin origin_;
  const std::size_t bytes_;
  const Clock::time_point start_ = Clock::now();
  Mutex mutex_;
  Clock::time_point end_ BERTH_GUARDED_BY(mutex_){};  ///< when the end was first observed
};

/// A copy that the host makes before other threads use this object.
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
