// SPDX-License-Identifier: Apache-2.0
// A segment of another process, mapped into this one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Threads  Immutable.
class ImportedSegment {
 public:
  /// Imports and maps the segment that `descriptor` refers to, which is closed.
  /// Errors  NotSupported: the device cannot import. OutOfMemory: there is no address space.
  ///         DriverError: it is no memory of the device, or not of this size.
  ImportedSegment(DeviceContext& context, Descriptor descriptor, std::size_t bytes);
  /// Unmaps it. The device must be done with it.
  ~ImportedSegment();
  ImportedSegment(const ImportedSegment&) = delete;
  ImportedSegment& operator=(const ImportedSegment&) = delete;

  [[nodiscard]] DeviceContext& context() const { return context_; }
  [[nodiscard]] std::uintptr_t address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  DeviceContext& context_;
  const ForkOrigin origin_;
  const std::size_t bytes_;
  const std::uintptr_t address_;
};

}  // namespace berth
