// SPDX-License-Identifier: Apache-2.0
// Waits for values of memory, and writes of them, as calls describe them: what streams are given at
// once, and graphs for later. Guarded by sim::mutex.
// Source: CUDA Driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <span>
#include <vector>

#include "sim/device/context.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct State;

/// The operations of one call or node.
inline constexpr unsigned kValueOperationsMax = 255;

/// Checks `operations` in `context`, and adds their work; a barrier is none.
CUresult read_operations(State& state, const Context& context,
                         std::span<const CUstreamBatchMemOpParams> operations,
                         std::vector<Work>& works);

}  // namespace berth::sim
