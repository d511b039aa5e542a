// SPDX-License-Identifier: Apache-2.0
// How an input begins: one byte of switches, then three lines, each of which may be empty: a
// configuration as in BERTH_SIM, a fault plan, and CUDA_VISIBLE_DEVICES. Text that the parsers
// refuse is left out.
#pragma once

#include <string>

#include "fuzz/input.hpp"
#include "sim/config.hpp"

namespace berth::fuzz {

/// Bits of the first byte; the lowest two are the progress mode, as sim::Progress numbers it.
enum Switch : unsigned {
  kWithoutChecks = 1U << 2,
  kTwoDevices = 1U << 3,
  kWithoutPeerAccess = 1U << 4,
  kLargeGranules = 1U << 5,
  /// The input is not run twice to compare, and may therefore have host functions and waits for
  /// values: those get real time, of which a busy machine may need more.
  kOnce = 1U << 6,
  kLeaveAlive = 1U << 7,  ///< the simulator goes with all that is in it
};

struct Setup {
  sim::Config config;  ///< small enough that whatever a call touches is soon touched
  std::string visible;
  bool once;
  bool leave_alive;
};

/// Stops where an accepted text does not survive being written and read again.
Setup read_setup(Input& input);

}  // namespace berth::fuzz
