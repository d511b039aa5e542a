// SPDX-License-Identifier: Apache-2.0
// The two sides of a staged copy. In staging memory the bytes of the copy are contiguous, with
// offsets from 0; each side maps these offsets to its own layout.
#pragma once

#include <cstddef>

#include "berth/stream.hpp"

namespace berth {

/// The direction of a copy between a device and the host.
enum class CopyDirection { to_device, to_host };

/// Host memory or a file, which host threads read and write.
/// Threads  Ranges that do not overlap may be copied concurrently.
class HostSide {
 public:
  virtual ~HostSide() = default;
  /// Copies [offset, offset + bytes) of the copy into staging memory.
  /// Errors  Those of the side; the copy fails with the exception.
  virtual void read(std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
  /// Copies staging memory to [offset, offset + bytes) of the copy.
  virtual void write(const std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
};

/// Memory of a device, which the device reads and writes in stream order.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;
  /// Submits the transfer from staging memory to [offset, offset + bytes) of the copy. Within a
  /// ContextScope of the stream's device.
  /// Errors  DriverError.
  virtual void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                            StreamRef stream) = 0;
  /// Submits the transfer of [offset, offset + bytes) of the copy to staging memory.
  virtual void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                           StreamRef stream) = 0;
  /// The most entries of the stream's queue that either of them takes.
  [[nodiscard]] virtual std::size_t entries_max(std::size_t /*offset*/, std::size_t /*bytes*/,
                                                StreamRef /*stream*/) const {
    return 1;
  }
};

}  // namespace berth
