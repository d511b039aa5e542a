// SPDX-License-Identifier: Apache-2.0
// What an operation does when it runs: bytes move, an event learns the time. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/context.hpp"
#include "sim/operation.hpp"
#include "sim/stream.hpp"

namespace berth::sim {

struct State;

/// Runs everything but a host function. CUDA_ERROR_ILLEGAL_ADDRESS where memory that was there at
/// the call is gone or closed by now.
CUresult perform(State& state, const Context& context, const Stream& stream, Operation& operation);

/// The bytes behind device or pinned memory; false where not all of them are there.
bool read(State& state, std::uint64_t address, unsigned char* out, std::size_t bytes);

/// Whether work of `context` may read or write all of `span`. A copy goes by the copying device or
/// by the one where the memory lives, and between devices without peer access through the host; any
/// other work needs access of its own device.
enum class Access { copy_from, copy_to, read, write };
bool may_access(const Span& span, const Context& context, Access access);

}  // namespace berth::sim
