// SPDX-License-Identifier: Apache-2.0
// The execution of operations. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include "sim/device/context.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// Executes any operation except a host function. CUDA_ERROR_ILLEGAL_ADDRESS if memory that was
/// valid at the call is freed or not accessible any more. `before`: the closed clock of all
/// predecessors.
CUresult perform(State& state, const Context& context, Stream& stream, const Operation& operation,
                 const Clock& before);

}  // namespace berth::sim
