// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/device_segment.hpp"

#include "sim/state.hpp"

namespace berth::sim {
namespace {

PhysicalMemory& memory_of(State& state, int device) {
  return *state.devices[static_cast<std::size_t>(device)].memory;
}

}  // namespace

DeviceSegment make_segment(State& state, int device, std::uint64_t bytes) {
  PhysicalMemory& memory = memory_of(state, device);
  if (bytes > memory.bytes_free()) return {};
  const auto address = state.addresses.arena.reserve(bytes, state.config.granularity);
  if (!address) return {};
  PhysicalBlock& block = state.blocks.create(device, bytes);
  if (memory.allocate(block)) return {*address, &block};
  state.blocks.erase(block.handle);
  state.addresses.arena.release(*address, bytes);
  return {};
}

void drop_segment(State& state, const DeviceSegment& segment) {
  PhysicalBlock& block = *segment.block;
  state.addresses.arena.release(segment.start, block.bytes);
  release_block(state, block);
}

}  // namespace berth::sim
