// SPDX-License-Identifier: Apache-2.0
// Counts the calls of the host's heap, in a program that is linked with heap_counter.cpp.
#pragma once

#include <cstdint>

namespace berth::bench {

/// Calls of malloc, calloc, realloc, free and the aligned ones that this thread has made so far, by
/// way of operator new or not, in whatever library.
[[nodiscard]] std::uint64_t heap_calls_of_thread();

}  // namespace berth::bench
