// SPDX-License-Identifier: Apache-2.0
// Tests on hardware of another kind than they ask for: BERTH_TEST_HARDWARE says which, with the
// keys of the simulator that docs/simulator.md has for hardware, as
// connections=1,queue=1024,driver_lock=on.
#pragma once

#include <cstdlib>
#include <utility>

#include "sim/config.hpp"

namespace berth::test {

/// `config`, on that hardware as well; as it is where the variable is not set.
inline sim::Config on_hardware(sim::Config config) {
  const char* const text = std::getenv("BERTH_TEST_HARDWARE");
  if (text == nullptr) return config;
  const sim::Config hardware = sim::Config::parse(text);
  config.connections = hardware.connections;
  config.queue_entries = hardware.queue_entries;
  config.driver_lock = config.driver_lock || hardware.driver_lock;
  if (hardware.launch_blocking) config.launch_blocking = hardware.launch_blocking;
  config.memory_operations = config.memory_operations && hardware.memory_operations;
  if (hardware.seed != sim::Config().seed) config.seed += hardware.seed;
  return config;
}

}  // namespace berth::test
