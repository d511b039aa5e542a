// SPDX-License-Identifier: Apache-2.0
// Physical memory behind handles of cuMemCreate, which exists while a handle or a mapping refers to
// it. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include "sim/memory/physical_memory.hpp"

namespace berth::sim {

struct State;

/// Null if the handle is invalid, or has no references left.
PhysicalBlock* find_allocation(State& state, CUmemGenericAllocationHandle handle);
/// Frees a block without references.
void drop_if_unused(State& state, PhysicalBlock& block);

}  // namespace berth::sim
