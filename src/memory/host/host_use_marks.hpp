// SPDX-License-Identifier: Apache-2.0
// Events that mark the uses of the host allocator's blocks by streams, with queries and waits.
#pragma once

#include <concepts>
#include <string>

#include "berth/stream.hpp"

#include "memory/host/host_blocks.hpp"
#include "memory/order/device_event_pools.hpp"

namespace berth {

/// Threads  Safe from any thread; a stream that a use names must not go away meanwhile.
class HostUseMarks {
 public:
  explicit HostUseMarks(const DeviceEventPools& pools) : pools_(pools) {}

  /// Of what `stream` holds now; null where it is captured, and cannot be marked.
  /// Errors  DriverError.
  [[nodiscard]] SharedEvent mark(StreamRef stream) const;
  /// Gives a use its event, where it has none and one can be recorded now. What fails is reported.
  void try_mark(HostUse& use) const noexcept;
  /// Whether all uses are over, once those are marked that can be. Never, on a device that has
  /// failed: whoever uses it hears of that.
  [[nodiscard]] bool are_over(HostUses& uses) const noexcept;
  /// False where a use is not marked, or the device has failed.
  [[nodiscard]] bool wait_for(const HostUses& uses) const noexcept;

  /// "cpu: " and what `make` returns; nothing where the host has no memory for it.
  template <std::invocable Make>
  void report(const Make& make) const noexcept {
    if (pools_.empty()) return;
    pools_.driver().report(Severity::warning,
                           [&] { return std::string(kHostAllocatorName) + ": " + make(); });
  }

 private:
  const DeviceEventPools& pools_;
};

}  // namespace berth
