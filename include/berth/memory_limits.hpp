// SPDX-License-Identifier: Apache-2.0
// Limits for the memory that an allocator may reserve, in bytes or as a part of the device.
#pragma once

#include <cstddef>
#include <optional>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// An amount of memory: bytes, or a part of a device's total memory, which need not be known yet.
class BERTH_API MemoryAmount {
 public:
  constexpr MemoryAmount(std::size_t bytes) : bytes_(bytes) {}  // NOLINT: bytes are an amount
  /// `part` of the device's memory, from 0 to 1.
  /// Errors  InvalidArgument: a part below 0, above 1, or not a number.
  static MemoryAmount part_of_device(double part);

  /// The amount in bytes, for a device of `device_bytes`.
  [[nodiscard]] std::size_t bytes(std::size_t device_bytes) const;

  /// The part of the device; nullopt if the amount is in bytes.
  [[nodiscard]] std::optional<double> part() const {
    return part_ < 0 ? std::nullopt : std::optional(part_);
  }

  friend constexpr bool operator==(const MemoryAmount&, const MemoryAmount&) noexcept = default;

 private:
  std::size_t bytes_;
  double part_ = -1;  ///< below 0: `bytes_` applies
};

/// A hard and a soft limit for reserved memory.
struct MemoryLimits {
  /// Maximum bytes reserved from the driver; nullopt: no limit but the device's memory. A request
  /// that would need more is served from cached memory or refused, without a driver call.
  std::optional<MemoryAmount> bytes_reserved_max = std::nullopt;

  /// Beyond this many bytes, cached memory without pending work is returned before more is
  /// reserved, as by Allocator::release_unused(). Never refuses a request. No effect: nullopt, or a
  /// soft limit above the hard one.
  std::optional<MemoryAmount> bytes_reserved_soft_max = std::nullopt;
};

}  // namespace berth
