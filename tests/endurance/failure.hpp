// SPDX-License-Identifier: Apache-2.0
// The end of the program at the first thing that is wrong, with the command that runs it again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::endurance {

/// Operations that the calling thread has begun in this run, for messages.
inline thread_local std::uint64_t operations_begun = 0;

/// Says what runs from now on, and how to run it again. Not while another thread may fail.
void set_running(std::string_view description);
/// Prints what is wrong and what ran, and ends the process.
[[noreturn]] void fail(std::string_view what);
/// The same where the library stops the process by itself, as its own checks do.
void catch_signals();

inline void require(bool holds, const char* what) {
  if (!holds) [[unlikely]]
    fail(what);
}

}  // namespace berth::endurance
