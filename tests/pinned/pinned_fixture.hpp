// SPDX-License-Identifier: Apache-2.0
// A pinned allocator on a simulated machine.
#pragma once

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/pinned_allocator.hpp"

#include "support/allocator_checks.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline RuntimeOptions pinned_options(PinnedAllocatorOptions pinned_allocator) {
  RuntimeOptions options;
  options.pinned_allocator = pinned_allocator;
  return options;
}

/// Of `devices`, near nodes 0, 1 and so on.
inline sim::Config machine_of_nodes(int devices) {
  sim::Config config;
  config.devices = devices;
  config.numa.clear();
  for (int node = 0; node < devices; ++node) config.numa.push_back(node);
  return config;
}

struct PinnedTest : Simulation {
  explicit PinnedTest(const sim::Config& config = {}, PinnedAllocatorOptions options = {})
      : Simulation(config, pinned_options(options)), memory(runtime->pinned_memory()) {}

  [[nodiscard]] Stream stream(int device = 0) {
    return runtime->create_stream(Device::cuda(device));
  }
  [[nodiscard]] MemoryCounters counters() const { return memory.counters(); }
  [[nodiscard]] std::size_t reserved() const { return counters().bytes_reserved.current; }
  [[nodiscard]] std::size_t cached() const {
    return counters().bytes_reserved.current - counters().bytes_active.current;
  }
  /// Bytes that the simulated driver holds pinned for whom asked.
  [[nodiscard]] std::size_t registrations() const { return simulator.live().host_registrations; }
  [[nodiscard]] std::size_t allocations() const { return simulator.live().host_allocations; }

  PinnedAllocator& memory;
};

}  // namespace berth::test
