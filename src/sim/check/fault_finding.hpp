// SPDX-License-Identifier: Apache-2.0
// The finding about work that uses memory which is not there, or which its device cannot reach.
// Guarded by sim::mutex.
#pragma once

#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

struct State;

/// `use`, which has not happened: its context fails. A test learns it from the codes of its calls,
/// and often means it, so there is a finding only in a program without a test.
void report_fault(State& state, const Use& use);

}  // namespace berth::sim
