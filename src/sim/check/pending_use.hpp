// SPDX-License-Identifier: Apache-2.0
// The uses of memory by pending work. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/check/shadow_memory.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct Range;
struct State;
struct Stream;

/// The first use of [start, start + bytes) by `work`; only its addresses and kind are set.
std::optional<Use> find_use(const Work& work, std::uint64_t start, std::uint64_t bytes);

/// The use of [start, start + bytes) by pending work that was submitted first; nullopt if there is
/// none. Pageable memory is not tracked. A context that has faulted runs no more work.
std::optional<Use> find_pending_use(State& state, std::uint64_t start, std::uint64_t bytes);

/// The allocation of `range`, pool memory, if it is pending.
std::optional<Use> find_pending_allocation(State& state, const Range& range);

/// The last operation queued on `stream` that writes to [start, start + bytes), also as a value, or
/// that may write, as a host function can; 0 if there is none.
std::uint64_t find_pending_write(const Stream& stream, std::uint64_t start, std::uint64_t bytes);

}  // namespace berth::sim
