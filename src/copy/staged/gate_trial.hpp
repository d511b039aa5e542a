// SPDX-License-Identifier: Apache-2.0
// The trial of a gate: whether the call that submits a gate returns while the gate is closed, or
// only when it is open, as under tools that complete each call before the next. The host work of
// one copy is withheld until the call has returned, or for a limited time. So a trial makes no
// driver call of its own.
//
// The gate alone is on trial, not the copy behind it: whatever delays the call that submits a gate,
// such as a full queue or a lock of the driver, does not end because this gate opens. A call behind
// the gate may wait for room that only the gate can make.
#pragma once

#include <chrono>
#include <optional>

#include "base/check.hpp"

namespace berth {

/// Threads  Guarded by the lock of the HostWork from begin() to end().
class GateTrial {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Result {
    unknown,   ///< the call took long, for another reason: a full queue, a lock of the driver
    accepted,  ///< the call returned while the gate was closed
    blocked,   ///< the call returned when the gate had opened
  };

  /// How soon a call that was blocked by its gate returns after the gate has opened. A busy machine
  /// takes some milliseconds to run the thread.
  static constexpr std::chrono::milliseconds kReturnMax{10};

  explicit GateTrial(std::chrono::milliseconds patience) : patience_(patience) {}

  void begin(Clock::time_point now) { deadline_ = now + patience_; }
  /// The call has taken so long that the host work has to begin.
  [[nodiscard]] bool is_overdue(Clock::time_point now) const {
    return !is_admitted_ && now >= deadline_;
  }
  void admit() { is_admitted_ = true; }
  [[nodiscard]] bool is_admitted() const { return is_admitted_; }
  /// The host work has opened the gate.
  void open(Clock::time_point now) {
    BERTH_CHECK(is_admitted_ && !opened_);  // the gate of withheld host work is closed
    opened_ = now;
  }
  [[nodiscard]] bool is_open() const { return opened_.has_value(); }
  /// The call has returned.
  void end(Clock::time_point now) {
    BERTH_CHECK(result_ == Result::unknown);  // a gate is submitted once
    if (!opened_)
      result_ = Result::accepted;
    else if (now - *opened_ <= kReturnMax)
      result_ = Result::blocked;
  }
  [[nodiscard]] Result result() const { return result_; }

 private:
  std::chrono::milliseconds patience_;
  Clock::time_point deadline_{};
  bool is_admitted_ = false;
  std::optional<Clock::time_point> opened_;
  Result result_ = Result::unknown;
};

}  // namespace berth
