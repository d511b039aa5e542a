// SPDX-License-Identifier: Apache-2.0
// The engine and the duration of an operation.
#pragma once

#include "sim/work/operation.hpp"
#include "sim/work/timeline.hpp"

namespace berth::sim {

struct State;

/// `slot`: the device of its stream.
Demand demand_of(State& state, int slot, const Operation& operation);

}  // namespace berth::sim
