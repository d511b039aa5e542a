// SPDX-License-Identifier: Apache-2.0
// What an operation does when it runs: bytes move, an event learns the time. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include "sim/device/context.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// Runs everything but a host function. CUDA_ERROR_ILLEGAL_ADDRESS where memory that was there at
/// the call is gone or closed by now.
/// `before`: all that it comes after, closed.
CUresult perform(State& state, const Context& context, Stream& stream, const Operation& operation,
                 const Clock& before);

}  // namespace berth::sim
