// SPDX-License-Identifier: Apache-2.0
// Whether copies on a device can use gates: waits of a stream for a word that the host writes.
#pragma once

#include <atomic>

#include "berth/copier_options.hpp"

namespace berth {

class DeviceContext;

/// Threads  Safe from any thread.
class StreamGates {
 public:
  StreamGates(DeviceContext& context, CopyGates gates);

  [[nodiscard]] bool are_available() const { return are_available_; }
  /// The driver has rejected a gate.
  void disable() { are_available_ = false; }

 private:
  std::atomic<bool> are_available_;
};

}  // namespace berth
