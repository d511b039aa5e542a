// SPDX-License-Identifier: Apache-2.0
// What work that has not run will do to memory. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/check/shadow_memory.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct State;
struct Stream;

/// The first use that `work` makes of [start, start + bytes); only its addresses and kind are
/// filled.
std::optional<Use> find_use(const Work& work, std::uint64_t start, std::uint64_t bytes);

/// The first use that pending work will make of [start, start + bytes); nullopt where none will.
/// Pageable memory is not watched. A context that has faulted runs nothing more.
std::optional<Use> find_pending_use(State& state, std::uint64_t start, std::uint64_t bytes);

/// The last operation queued on `stream` that writes to [start, start + bytes), also as a value, or
/// that may, as a host function can; 0 where none does.
std::uint64_t find_pending_write(const Stream& stream, std::uint64_t start, std::uint64_t bytes);

}  // namespace berth::sim
