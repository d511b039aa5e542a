// SPDX-License-Identifier: Apache-2.0
// The description of a mapping of device memory, for callbacks of the program.
#pragma once

#include <cstddef>
#include <functional>

#include "berth/device.hpp"

namespace berth {

/// A range of device addresses that an allocator has mapped: DeviceAllocatorOptions::on_map and
/// on_unmap.
struct MappedRange {
  void* data = nullptr;
  std::size_t bytes = 0;
  /// The range consists of pieces of this size, each with a physical allocation of its own. In a
  /// contiguous pool, and without virtual memory, the range is one piece.
  std::size_t piece_bytes = 0;
  Device device = Device::cpu();  ///< of the memory
  /// Whether the same memory is also mapped elsewhere, as another range: a block that is joined
  /// from separate free memory is used at these addresses.
  bool is_alias = false;
};

using MappingCallback = std::function<void(const MappedRange&)>;

}  // namespace berth
