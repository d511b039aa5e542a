// SPDX-License-Identifier: Apache-2.0
// The time of the fastest of several runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace berth::tool {

/// In seconds, of `repeats` runs, 1 or more, after an untimed one, which pins memory.
template <class Run>
double fastest_seconds(int repeats, const Run& run) {
  run();
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  return best;
}

}  // namespace berth::tool
