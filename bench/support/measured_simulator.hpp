// SPDX-License-Identifier: Apache-2.0
// The simulated driver as one measures with it.
#pragma once

#include "sim/simulator.hpp"

namespace berth::bench {

/// Without what costs time or memory that no real driver takes.
inline sim::Config measured_simulator(sim::Progress progress) {
  sim::Config config;
  config.progress = progress;
  config.checks = false;
  config.poison = false;
  return config;
}

}  // namespace berth::bench
