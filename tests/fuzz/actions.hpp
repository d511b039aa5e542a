// SPDX-License-Identifier: Apache-2.0
// All that an input can make happen: a call of any simulated function, in its per-thread form too,
// and what tests do with a simulator.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "fuzz/call.hpp"

namespace berth::fuzz {

/// The functions of CUDA first, then those of NVML, then steps of the simulator.
const std::vector<Action>& actions();
std::size_t find_action(std::string_view name);

/// Where the steps that no function is begin.
const std::vector<Action>& simulator_steps();

}  // namespace berth::fuzz
