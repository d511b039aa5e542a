// SPDX-License-Identifier: Apache-2.0
// The end of a well-behaved program: everything is given back by driver calls, whatever state the
// calls before have left it in.
#pragma once

#include "fuzz/things.hpp"
#include "sim/simulator.hpp"

namespace berth::fuzz {

/// Stops where anything is left, unless the fault plan refuses calls for good.
void tear_down(sim::Simulator& simulator, const sim::Config& config, const Things& things);

}  // namespace berth::fuzz
