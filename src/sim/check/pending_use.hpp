// SPDX-License-Identifier: Apache-2.0
// What work that has not run will do to memory. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

struct State;

/// The first use that pending work will make of [start, start + bytes); nullopt where none will.
/// Pageable memory is not watched. A context that has faulted runs nothing more.
std::optional<Use> find_pending_use(State& state, std::uint64_t start, std::uint64_t bytes);

}  // namespace berth::sim
