// SPDX-License-Identifier: Apache-2.0
// The two ends of a staged copy. Between them its bytes are one row, counted from 0, whatever they
// look like on either side: an end knows where each stretch of that row lies.
#pragma once

#include <cstddef>

#include "berth/stream.hpp"

namespace berth {

/// Of a copy between a device and the host.
enum class CopyDirection { to_device, to_host };

/// Memory of the host, a file: what the host itself reads and writes.
/// Threads  Stretches that do not overlap may be moved at the same time.
class HostEnd {
 public:
  virtual ~HostEnd() = default;
  /// Fills the staging memory with [offset, offset + bytes) of the row.
  /// Errors  What this end can meet: the copy ends with it.
  virtual void read(std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
  /// The other way.
  virtual void write(const std::byte* staging, std::size_t offset, std::size_t bytes) = 0;
};

/// Memory of a device: what the device reads and writes, in stream order.
class DeviceEnd {
 public:
  virtual ~DeviceEnd() = default;
  /// Submits the copy from staging memory to [offset, offset + bytes) of the row. Within a
  /// ContextScope of the stream's device.
  /// Errors  DriverError.
  virtual void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                            StreamRef stream) = 0;
  /// The other way.
  virtual void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                           StreamRef stream) = 0;
};

}  // namespace berth
