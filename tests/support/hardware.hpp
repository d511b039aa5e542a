// SPDX-License-Identifier: Apache-2.0
// Runs tests on other simulated hardware than they configure: BERTH_TEST_HARDWARE has the keys for
// hardware of docs/simulator.md, such as connections=1,queue=1024,driver_lock=on.
#pragma once

#include <cstdlib>
#include <utility>

#include "sim/config.hpp"

namespace berth::test {

/// `config` with that hardware; unchanged if the variable is not set.
inline sim::Config on_hardware(sim::Config config) {
  const char* const text = std::getenv("BERTH_TEST_HARDWARE");
  if (text == nullptr) return config;
  const sim::Config hardware = sim::Config::parse(text);
  config.connections = hardware.connections;
  config.queue_entries = hardware.queue_entries;
  config.driver_lock = config.driver_lock || hardware.driver_lock;
  if (hardware.launch_blocking) config.launch_blocking = hardware.launch_blocking;
  if (!hardware.memory_operations_of(0)) config.memory_operations = {false};
  if (hardware.seed != sim::Config().seed) config.seed += hardware.seed;
  return config;
}

}  // namespace berth::test
