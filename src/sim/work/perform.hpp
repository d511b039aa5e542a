// SPDX-License-Identifier: Apache-2.0
// The execution of operations. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>
#include <vector>

#include "sim/device/context.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// Executes any operation, except that it does not call the program. CUDA_ERROR_ILLEGAL_ADDRESS if
/// memory that was valid at the call is freed or not accessible any more. `before`: the closed
/// clock of all predecessors.
CUresult perform(State& state, const Context& context, Stream& stream, const Operation& operation,
                 const Clock& before);

/// What a kernel computes with: a copy of each range that it uses.
std::vector<std::vector<std::byte>> copies_for(State& state, const KernelWork& kernel);
/// The copies of the ranges that it writes become their content. CUDA_ERROR_ILLEGAL_ADDRESS as
/// above: the lock has been let go of since.
CUresult take_back(State& state, const Context& context, const Stream& stream,
                   const Operation& operation, const KernelWork& kernel,
                   std::span<const std::span<std::byte>> ranges);

}  // namespace berth::sim
