// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth {

/// A number of the calling thread, from 1, which no other thread of the process ever has. The
/// system gives the std::thread::id of a thread that has ended to a later one.
std::uint64_t this_thread_number() noexcept;

}  // namespace berth
