// SPDX-License-Identifier: Apache-2.0
// Whether copies on a device can use gates: waits of a stream for a word that the host writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "berth/copier_options.hpp"

#include "base/mutex.hpp"
#include "copy/staged/gate_trial.hpp"

namespace berth {

class DeviceContext;

/// Threads  Safe from any thread.
class StreamGates {
 public:
  StreamGates(DeviceContext& context, CopyGates gates);

  [[nodiscard]] bool are_available() const {
    return are_available_.load(std::memory_order_relaxed);
  }
  /// The driver has rejected a gate.
  void disable() { are_available_ = false; }

  /// The trial of the next copy to the device, from the construction of the object on. The first
  /// accepted gate ends all trials. If one trial after the other is blocked, gates are disabled.
  class NextTrial {
   public:
    explicit NextTrial(StreamGates& gates) : gates_(gates), trial_(gates.begin_trial()) {}
    ~NextTrial() {
      if (trial_) gates_.end_trial(trial_->result());
    }
    NextTrial(const NextTrial&) = delete;
    NextTrial& operator=(const NextTrial&) = delete;
    /// Null if the result is known, or another copy is on trial.
    [[nodiscard]] GateTrial* get() { return trial_ ? &*trial_ : nullptr; }

   private:
    StreamGates& gates_;
    std::optional<GateTrial> trial_;
  };

 private:
  std::optional<GateTrial> begin_trial() BERTH_EXCLUDES(mutex_);
  void end_trial(GateTrial::Result result) noexcept BERTH_EXCLUDES(mutex_);

  DeviceContext& context_;
  std::atomic<bool> are_available_;
  std::atomic<bool> wants_trial_;
  Mutex mutex_;
  bool is_on_trial_ BERTH_GUARDED_BY(mutex_) = false;
  std::size_t blocked_ BERTH_GUARDED_BY(mutex_) = 0;  ///< trials in a row
};

}  // namespace berth
