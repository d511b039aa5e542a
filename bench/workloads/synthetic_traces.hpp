// SPDX-License-Identifier: Apache-2.0
// Programs of the project's own, for what no recorded one has: many streams that hand memory on,
// and requests that never repeat. Seeded: the same rows on each machine.
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
/// Those of them that take turns among sizes, each under its number of sizes.
const std::vector<SyntheticTrace>& rotations();

}  // namespace berth::bench
