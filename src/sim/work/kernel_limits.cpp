// SPDX-License-Identifier: Apache-2.0
#include "sim/work/kernel_limits.hpp"

#include <algorithm>

namespace berth::sim {

int device_limit(const State& state, int slot, CUdevice_attribute attribute) {
  const Device& device = state.devices[static_cast<std::size_t>(slot)];
  return device_attribute(state.config, device.facts, attribute).value_or(0);
}

int dynamic_shared_max(const State& state, int slot, const DeviceFunction& function) {
  const auto set = function.settings.find({slot, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
  return set != function.settings.end()
             ? set->second
             : device_limit(state, slot, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
}

Occupancy::Occupancy(const State& state, int slot) {
  const auto limit = [&](CUdevice_attribute attribute) {
    return device_limit(state, slot, attribute);
  };
  threads_max = limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  warp = std::max(1, limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  multiprocessors = limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  blocks_per_multiprocessor = limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  threads_per_multiprocessor = limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  const auto bytes = [&](CUdevice_attribute attribute) {
    return static_cast<std::size_t>(limit(attribute));
  };
  shared_max = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  shared_per_multiprocessor = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  shared_reserved = bytes(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
}

int Occupancy::blocks(int threads, std::size_t shared_bytes) const {
  const int in_warps = (threads + warp - 1) / warp * warp;
  const int by_threads = std::min(blocks_per_multiprocessor, threads_per_multiprocessor / in_warps);
  if (shared_bytes > shared_per_multiprocessor) return 0;
  const std::size_t of_block = shared_bytes + shared_reserved;
  if (of_block == 0) return by_threads;
  return std::min(by_threads, static_cast<int>(shared_per_multiprocessor / of_block));
}

}  // namespace berth::sim
