// SPDX-License-Identifier: Apache-2.0
// Counts heap calls, in a program that is linked with heap_counter.cpp.
#pragma once

#include <cstdint>

namespace berth::bench {

/// The calls of malloc, calloc, realloc, free and the aligned variants by this thread so far,
/// directly or by operator new, in any library.
[[nodiscard]] std::uint64_t heap_calls_of_thread();

}  // namespace berth::bench
