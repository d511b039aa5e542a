// SPDX-License-Identifier: Apache-2.0
// Managed memory that moves to the device that uses it, in virtual time. The host's own accesses
// are not seen, so only a prefetch moves memory back to the host. Guarded by sim::mutex.
// Source: CUDA Programming Guide, "Unified Memory".
#pragma once

#include <cstdint>

#include "sim/work/operation.hpp"

namespace berth::sim {

struct State;

/// The time that a kernel or fill loses because managed memory that it uses is not on the device in
/// `slot`. 0 for other work: a copy reads and writes managed memory where it is.
std::uint64_t migration_ns(State& state, int slot, const Work& work);
/// The managed memory that such work uses is on the device from now on, unless advice keeps it
/// elsewhere.
void migrate(State& state, int slot, const Work& work);

}  // namespace berth::sim
