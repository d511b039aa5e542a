// SPDX-License-Identifier: Apache-2.0
// The devices that CUDA enumerates, and their order, which depend on the environment and MIG.
#pragma once

#include <vector>

#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

/// The slot in State::devices of each ordinal.
std::vector<int> enumerate_devices(const State& state) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
