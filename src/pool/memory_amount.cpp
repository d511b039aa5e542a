// SPDX-License-Identifier: Apache-2.0

#include "berth/error.hpp"
#include "berth/memory_limits.hpp"

#include "base/format.hpp"

namespace berth {

MemoryAmount MemoryAmount::part_of_device(double part) {
  if (!(part >= 0 && part <= 1)) {
    throw InvalidArgument(
        format_text("{} is not a fraction of a device's memory; accepted: 0 to 1", part));
  }
  MemoryAmount amount(0);
  amount.part_ = part;
  return amount;
}

std::size_t MemoryAmount::bytes(std::size_t device_bytes) const {
  if (part_ < 0) return bytes_;
  if (part_ == 1) return device_bytes;
  return static_cast<std::size_t>(part_ * static_cast<double>(device_bytes));
}

}  // namespace berth
