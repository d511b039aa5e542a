// SPDX-License-Identifier: Apache-2.0
// Physical memory behind handles of cuMemCreate: it lives while a handle or a mapping refers to it.
// Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include "sim/memory/physical_memory.hpp"

namespace berth::sim {

struct State;

/// Null where the handle is none, or was released as often as it was given.
PhysicalBlock* find_allocation(State& state, CUmemGenericAllocationHandle handle);
/// Frees what nothing refers to any more.
void drop_if_unused(State& state, PhysicalBlock& block);

}  // namespace berth::sim
