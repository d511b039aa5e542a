// SPDX-License-Identifier: Apache-2.0
// One program: a mode and a seed.
#pragma once

#include <cstdint>

#include "berth/memory_counters.hpp"

#include "endurance/books.hpp"
#include "endurance/mode.hpp"

namespace berth::endurance {

struct Outcome {
  Tally tally;
  MemoryCounters counters;  ///< at the end, before everything is freed
};

/// Runs the first `operations` of the program, and fails at the first thing that is wrong.
Outcome run_program(const Mode& mode, std::uint64_t seed, std::uint64_t operations);

}  // namespace berth::endurance
