// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: made here, or the caller's own, registered; and managed memory, which never
// leaves the host. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sim/device/context.hpp"
#include "sim/memory/address_space.hpp"

namespace berth::sim {

struct State;

/// Whether every page of [address, address + bytes) is part of this process, as far as the system
/// says.
bool is_host_memory(const void* address, std::size_t bytes);

/// New pages, of cuMemHostAlloc with CU_MEMHOSTALLOC_* or managed; null where the limit or the
/// system has no room.
void* make_pinned_host_memory(State& state, const Context& context, std::size_t bytes,
                              unsigned flags);
void* make_managed_memory(State& state, const Context& context, std::size_t bytes);
CUresult register_host_memory(State& state, const Context& context, void* address,
                              std::size_t bytes);
/// Ends an allocation (its pages go) or a registration (they stay).
void unpin_host_memory(State& state, const Range& range);

}  // namespace berth::sim
