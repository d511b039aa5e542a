// SPDX-License-Identifier: Apache-2.0
// Functions that only the simulated driver has: by them a program tells its race detector what the
// host does without a driver call. A hardware driver lacks them, and berth then calls nothing.
//
//   X(member, symbol, type)
//
// None of them fails or waits for work, and any thread may call them.
#pragma once

#include <cstdint>

namespace berth::sim_abi {

/// The calling thread has read `value` in `word`, pinned or managed memory of 4 or 8 bytes: from now
/// on it comes after the work that wrote that value there, and after all that the work comes after. A
/// value that no work wrote orders nothing. The look itself is a moment in which pending work may
/// go on, as in a driver call, so a thread that polls a word says so each time.
using HostObserves = void(const void* word, std::uint64_t value);

// clang-format off
#define BERTH_SIM_ONLY_FUNCTIONS(X) \
  X(host_observes, berthSimHostObserves, HostObserves)
// clang-format on

}  // namespace berth::sim_abi
