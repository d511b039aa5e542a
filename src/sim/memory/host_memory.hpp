// SPDX-License-Identifier: Apache-2.0
// Pinned host memory, allocated here or registered by the caller; and managed memory, which always
// stays on the host. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sim/device/context.hpp"
#include "sim/memory/address_space.hpp"

namespace berth::sim {

struct State;

/// Whether every page of [address, address + bytes) is mapped in this process, as reported by the
/// system.
bool is_host_memory(const void* address, std::size_t bytes);

/// New pages, of cuMemHostAlloc with CU_MEMHOSTALLOC_* or managed; null if the limit is reached or
/// the system is out of memory.
void* make_pinned_host_memory(State& state, const Context& context, std::size_t bytes,
                              unsigned flags);
void* make_managed_memory(State& state, const Context& context, std::size_t bytes);
CUresult register_host_memory(State& state, const Context& context, void* address,
                              std::size_t bytes);
/// Frees an allocation, or ends a registration, whose pages stay.
void unpin_host_memory(State& state, const Range& range);

}  // namespace berth::sim
