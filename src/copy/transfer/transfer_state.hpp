// SPDX-License-Identifier: Apache-2.0
// What a Transfer knows of a copy, however that travels.
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

  /// Asks the device where that is needed; a failure counts as an end.
  virtual bool is_done() = 0;
  /// Returns once it is over, with failure() or without.
  virtual void wait() = 0;
  [[nodiscard]] virtual std::exception_ptr failure() const = 0;
  virtual std::size_t bytes_done() = 0;
  virtual void cancel() noexcept = 0;
  /// Somebody will hear of a failure, so that it need not be reported.
  virtual void promise_to_tell() noexcept {}
  /// Nobody holds a Transfer of it any more: returns once no thread touches memory that the caller
  /// lent. A failure that nobody has heard of by then goes to the report sink.
  virtual void let_go() noexcept {}
  /// The caller lends its memory until the transfer is over: let_go() does nothing.
  virtual void detach() noexcept {}

  /// Not in a forked child, which has neither the threads nor the device. Asked before all that
  /// follows.
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
  Clock::time_point end_ BERTH_GUARDED_BY(mutex_){};  ///< when it was first seen to be over
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
