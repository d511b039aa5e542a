// SPDX-License-Identifier: Apache-2.0
// Synthetic programs with properties that no recorded one has: many streams that pass memory on,
// and requests that never repeat. Seeded, with the same rows on each machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "berth/trace.hpp"

namespace berth::bench {

struct SyntheticTrace {
  std::string name;
  std::function<Trace()> make;
};

const std::vector<SyntheticTrace>& synthetic_traces();
/// The programs that alternate between sizes, by their number of sizes.
const std::vector<SyntheticTrace>& rotations();

}  // namespace berth::bench
