// SPDX-License-Identifier: Apache-2.0
// Events that mark the uses of the host allocator's blocks by streams, with queries and waits.
#pragma once

#include <concepts>
#include <string>

#include "berth/stream.hpp"

#include "host/host_blocks.hpp"
#include "memory/order/device_event_pools.hpp"

namespace berth {

/// Threads  Safe from any thread. A stream in a use must not end meanwhile.
class HostUseMarks {
 public:
  explicit HostUseMarks(const DeviceEventPools& pools) : pools_(pools) {}

  /// An event behind the current work of `stream`; null if it is captured.
  /// Errors  DriverError.
  [[nodiscard]] SharedEvent mark(StreamRef stream) const;
  /// Gives a use its event, if it has none and one can be recorded now. Failures are reported.
  void try_mark(HostUse& use) const noexcept;
  /// Marks the uses that can be marked, and returns whether all are done. False on a failed device.
  [[nodiscard]] bool are_over(HostUses& uses) const noexcept;
  /// False if a use is not marked, or the device has failed.
  [[nodiscard]] bool wait_for(const HostUses& uses) const noexcept;

  /// Reports "cpu: " and the result of `make`.
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
