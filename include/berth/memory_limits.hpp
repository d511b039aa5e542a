// SPDX-License-Identifier: Apache-2.0
// How much memory an allocator may reserve: in bytes, or as a part of what the device has.
#pragma once

#include <cstddef>
#include <optional>

#include "berth/export.h"

namespace berth {

/// Bytes, or a part of all memory of a device, which need not be known yet.
class BERTH_API MemoryAmount {
 public:
  constexpr MemoryAmount(std::size_t bytes) : bytes_(bytes) {}  // NOLINT: bytes are an amount
  /// `part` of the device's memory, from 0 to 1.
  /// Errors  InvalidArgument: a part below 0, above 1, or no number.
  static MemoryAmount part_of_device(double part);

  /// In bytes, of a device of `device_bytes`.
  [[nodiscard]] std::size_t bytes(std::size_t device_bytes) const;

  /// The part of the device; nullopt where the amount is in bytes.
  [[nodiscard]] std::optional<double> part() const {
    return part_ < 0 ? std::nullopt : std::optional(part_);
  }

  friend bool operator==(const MemoryAmount&, const MemoryAmount&) = default;

 private:
  std::size_t bytes_;
  double part_ = -1;  ///< below 0: `bytes_` counts
};

struct MemoryLimits {
  /// Bytes that may be reserved from the driver at most; nullopt: what the device has. A request
  /// that would need more is served from cached memory or refused, without asking the driver.
  std::optional<MemoryAmount> reserved_bytes_max = std::nullopt;

  /// Beyond this many bytes nothing is reserved while cached memory can be given back instead
  /// without waiting for the GPU; nullopt: caching knows no such bound. Never refuses a request.
  std::optional<MemoryAmount> reserved_bytes_soft_max = std::nullopt;
};

}  // namespace berth
