// SPDX-License-Identifier: Apache-2.0
// What a context still owns when it ends, and CUDA frees silently. Guarded by sim::mutex.
#pragma once

#include "sim/check/shadow_memory.hpp"
#include "sim/device/context.hpp"

namespace berth::sim {

struct State;

/// Reports whatever `context`, which `call` is about to end, still owns. Not after a fault: nothing
/// can be freed then.
void check_leaks(State& state, const Context& context, const CallSite& call);

}  // namespace berth::sim
