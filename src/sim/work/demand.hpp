// SPDX-License-Identifier: Apache-2.0
// Which engine does an operation, and for how long.
#pragma once

#include "sim/work/operation.hpp"
#include "sim/work/timeline.hpp"

namespace berth::sim {

struct State;

Demand demand_of(State& state, const Operation& operation);

}  // namespace berth::sim
