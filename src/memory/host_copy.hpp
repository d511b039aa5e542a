// SPDX-License-Identifier: Apache-2.0
// The content of device memory, kept in host memory while a pool sleeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device_context.hpp"

namespace berth {

struct MemoryRange {
  std::uintptr_t address;
  std::size_t bytes;
};

/// Threads  One at a time.
class HostCopy {
 public:
  /// Copies the content of `ranges`, in address order, and replaces the previous copy.
  /// Blocking  Waits for the copies.
  /// Errors    OutOfMemory: the host is out of memory. DriverError. Nothing is kept then.
  void save(DeviceContext& context, const std::vector<MemoryRange>& ranges);
  /// Restores the content. The copy is kept until clear().
  /// Errors  DriverError.
  void restore(DeviceContext& context) const;
  void clear() { pieces_.clear(); }
  [[nodiscard]] bool is_empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    MemoryRange range;
    std::unique_ptr<std::byte[]> content;
  };
  std::vector<Piece> pieces_;
};

}  // namespace berth
