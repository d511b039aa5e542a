// SPDX-License-Identifier: Apache-2.0
// Which devices CUDA counts, and in which order: what the environment and MIG leave of them.
#pragma once

#include <vector>

#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

/// The place in State::devices of each ordinal.
std::vector<int> enumerate_devices(const State& state) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
