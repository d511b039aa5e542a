// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <doctest/doctest.h>

namespace berth::test {

/// Makes a random program take so many steps and end. Returns its hash of the order of things,
/// which is the same for the same seed.
template <class Program>
std::uint64_t run_to_the_end(Program& program, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    program.step();
  }
  program.finish();
  return program.order_hash();
}

}  // namespace berth::test
