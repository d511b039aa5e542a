// SPDX-License-Identifier: Apache-2.0
// The whole state, compared with everything that is known of it, while no thread runs.
#pragma once

#include <vector>

#include "endurance/books.hpp"
#include "endurance/machine.hpp"

namespace berth::endurance {

/// Runs all work. Fails where the allocator's counters and blocks are not what `live` and `tally`
/// say, where its own checks object, where its blocks do not lie where the driver has mapped them
/// or have other bytes than were written, and where the simulated driver has found a race.
void check_all(Machine& machine, std::vector<LiveBlock> live, const Tally& tally);

}  // namespace berth::endurance
