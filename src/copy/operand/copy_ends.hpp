// SPDX-License-Identifier: Apache-2.0
// The two ends of a staged copy. Between them its bytes are one row, counted from 0, whatever their
// layout on either side: each end knows where a stretch of the row lies.
#pragma once

#include <cstddef>

#include "berth/stream.hpp"

namespace berth {

/// The direction of a copy between a device and the host.
enum class CopyDirection { to_device, to_host };

/// Host memory or a file: read and written by host threads.
/// Threads  Stretches that do not overlap may be moved at the same time.
class HostEnd {
 public:
  virtual ~HostEnd() = default;
  /// Copies [offset, offset + bytes) of the row into staging memory.
  /// Errors  Those of the end: the copy fails with it.
  virtual void read(std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
  /// Copies staging memory to [offset, offset + bytes) of the row.
  virtual void write(const std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
};

/// Memory of a device, which the device reads and writes in stream order.
class DeviceEnd {
 public:
  virtual ~DeviceEnd() = default;
  /// Submits the copy from staging memory to [offset, offset + bytes) of the row. Within a
  /// ContextScope of the stream's device.
  /// Errors  DriverError.
  virtual void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                            StreamRef stream) = 0;
  /// Submits the copy of [offset, offset + bytes) of the row to staging memory.
  virtual void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                           StreamRef stream) = 0;
  /// The most entries of the stream's queue that either of them takes.
  [[nodiscard]] virtual std::size_t entries_max(std::size_t /*offset*/, std::size_t /*bytes*/,
                                                StreamRef /*stream*/) const {
    return 1;
  }
};

}  // namespace berth
