// SPDX-License-Identifier: Apache-2.0
// Forked children. CUDA does not work in the child of a process that has initialized it: every call
// returns CUDA_ERROR_NOT_INITIALIZED. If the parent has not, the child may use the driver. NVML
// works in every child, once the child has initialized it.
//
// fork() waits until no call runs, so that in the child the locks are free and the state is
// consistent.
#pragma once

#include <atomic>

namespace berth::sim {

inline constinit std::atomic<bool> parents_driver = false;

/// Whether the installed state belongs to the process that this one was forked from. Needs no lock.
[[nodiscard]] inline bool is_parents_driver() {
  return parents_driver.load(std::memory_order_relaxed);
}

}  // namespace berth::sim
