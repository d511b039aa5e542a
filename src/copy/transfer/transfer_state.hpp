// SPDX-License-Identifier: Apache-2.0
// The state behind a Transfer, for each way to copy.
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

  /// Queries the device if necessary. A copy that has failed is done.
  virtual bool is_done() = 0;
  /// Returns when the copy is over; failure() says how.
  virtual void wait() = 0;
  [[nodiscard]] virtual std::exception_ptr failure() const = 0;
  virtual std::size_t bytes_done() = 0;
  virtual void cancel() noexcept = 0;
  /// A failure will reach the program, so it need not be reported.
  virtual void promise_to_tell() noexcept {}
  /// The last Transfer is gone: returns when no thread will access memory that the caller lent. A
  /// failure that has not reached the program goes to the report sink.
  virtual void let_go() noexcept {}
  /// The caller keeps its memory valid until the transfer is over: let_go() does not wait.
  virtual void detach() noexcept {}

  /// False in a forked child, which has neither the threads nor the device. Checked before any
  /// other call.
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

/// A copy that the host makes before any other thread has this object.
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
