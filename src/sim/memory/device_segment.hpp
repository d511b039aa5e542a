// SPDX-License-Identifier: Apache-2.0
// Whole granules of a device at their own address, from which allocations are suballocated. Guarded
// by sim::mutex.
#pragma once

#include <cstdint>

#include "sim/memory/physical_memory.hpp"

namespace berth::sim {

struct State;

struct DeviceSegment {
  std::uint64_t start = 0;
  PhysicalBlock* block = nullptr;  ///< null if the device or the address space is full
};

/// `bytes` is a multiple of the granularity.
DeviceSegment make_segment(State& state, int device, std::uint64_t bytes);
void drop_segment(State& state, const DeviceSegment& segment);

}  // namespace berth::sim
