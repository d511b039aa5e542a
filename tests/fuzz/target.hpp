// SPDX-License-Identifier: Apache-2.0
// One input: a setup, then records of kRecordBytes, each an action and what decides its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace berth::fuzz {

/// Two bytes choose the action, one the thread, the rest its parameters.
inline constexpr std::size_t kRecordBytes = 32;
/// From here on the thread's byte means the second one; the largest ends that thread afterwards.
inline constexpr unsigned kOnSecondThread = 0xE0;
inline constexpr unsigned kEndSecondThread = 0xFF;
inline constexpr std::size_t kActionsMax = 200;

/// Runs `bytes`. Stops the process where the simulator breaks what it promises.
void run_input(std::string_view bytes);

/// From now on each action, and what it came to, is printed.
void explain();

/// How often an action, by its place in actions(), was taken, and how often it succeeded, so far.
struct Tally {
  std::uint64_t taken = 0;
  std::uint64_t succeeded = 0;
};
const std::vector<Tally>& tallies();

}  // namespace berth::fuzz
