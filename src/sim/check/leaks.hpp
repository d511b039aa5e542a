// SPDX-License-Identifier: Apache-2.0
// Leaks: objects that a context still owns at its end, which CUDA frees silently. Guarded by
// sim::mutex.
#pragma once

#include "sim/check/shadow_memory.hpp"
#include "sim/device/context.hpp"

namespace berth::sim {

struct State;

/// Reports the objects that `context` still owns when `call` is about to end it. Not called after a
/// fault, because nothing can be freed then.
void check_leaks(State& state, const Context& context, const CallSite& call);

}  // namespace berth::sim
