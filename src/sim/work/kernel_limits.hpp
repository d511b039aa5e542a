// SPDX-License-Identifier: Apache-2.0
// What a device can run of any kernel. Device code is not read, so each kernel counts as one that
// uses 32 registers a thread, which are enough for every thread that a device has room for, and no
// shared memory but what its launch asks for. Guarded by sim::mutex.
// Source: CUDA Driver API, "Execution Control", "Occupancy".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/state.hpp"

namespace berth::sim {

inline constexpr int kRegistersPerThread = 32;

/// 0 if the device has no such attribute.
int device_limit(const State& state, int slot, CUdevice_attribute attribute);

/// The dynamic shared memory that a launch may ask for.
int dynamic_shared_max(const State& state, int slot, const DeviceFunction& function);

/// How many blocks fit.
struct Occupancy {
  Occupancy(const State& state, int slot);

  /// Whether a block may have so many threads.
  [[nodiscard]] bool is_block(int threads) const { return threads > 0 && threads <= threads_max; }
  /// On one multiprocessor, of a valid block.
  [[nodiscard]] int blocks(int threads, std::size_t shared_bytes) const;
  /// On the device.
  [[nodiscard]] std::uint64_t all_blocks(int threads, std::size_t shared_bytes) const {
    return std::uint64_t(blocks(threads, shared_bytes)) * std::uint64_t(multiprocessors);
  }

  int threads_max;  ///< of a block
  int warp;
  int multiprocessors;
  int blocks_per_multiprocessor;
  int threads_per_multiprocessor;
  std::size_t shared_max;  ///< of a block that has opted in
  std::size_t shared_per_multiprocessor;
  std::size_t shared_reserved;  ///< of each block
};

}  // namespace berth::sim
