// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/allocation_handles.hpp"

#include "sim/state.hpp"

namespace berth::sim {

PhysicalBlock* find_allocation(State& state, CUmemGenericAllocationHandle handle) {
  PhysicalBlock* block = state.blocks.find(handle);
  return block != nullptr && block->references != 0 ? block : nullptr;
}

void drop_if_unused(State& state, PhysicalBlock& block) {
  if (block.references != 0 || block.mappings != 0) return;
  release_block(state, block);
}

}  // namespace berth::sim
