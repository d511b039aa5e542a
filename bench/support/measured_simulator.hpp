// SPDX-License-Identifier: Apache-2.0
// The simulated driver for measurements.
#pragma once

#include "sim/simulator.hpp"

namespace berth::bench {

/// Without checks that cost time or memory which a real driver does not take, and without bounds of
/// queues: the host is as far ahead as the program lets it be.
inline sim::Config measured_simulator(sim::Progress progress) {
  sim::Config config;
  config.progress = progress;
  config.checks = false;
  config.poison = false;
  config.queue_entries = 0;
  return config;
}

}  // namespace berth::bench
