// SPDX-License-Identifier: Apache-2.0
// Whether copies on a device may use gates: waits of a stream for a word that the host writes.
#pragma once

#include <atomic>

#include "berth/copier_options.hpp"

namespace berth {

class DeviceContext;

/// Threads  Safe from any thread.
class StreamGates {
 public:
  StreamGates(DeviceContext& context, CopyGates wanted);

  [[nodiscard]] bool are_there() const { return are_there_; }
  /// The driver has refused a gate.
  void note_refusal() { are_there_ = false; }

 private:
  std::atomic<bool> are_there_;
};

}  // namespace berth
