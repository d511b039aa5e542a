// SPDX-License-Identifier: Apache-2.0
// A device allocator on a simulated device, in each of the two ways in which it obtains memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_allocator.hpp"

#include "support/allocator_checks.hpp"
#include "support/simulation.hpp"

namespace berth::test {

/// A simulated machine whose device has little memory, so that it is easily short.
inline sim::Config small_device(std::uint64_t bytes,
                                sim::Progress progress = sim::Progress::eager) {
  sim::Config config;
  config.memory = {bytes};
  config.progress = progress;
  return config;
}

inline RuntimeOptions memory_options(DeviceAllocatorOptions device_allocator) {
  RuntimeOptions options;
  options.device_allocator = std::move(device_allocator);
  return options;
}

/// Runs `test` with memory mapped granule by granule, and with segments of cuMemAlloc.
template <class Test>
void with_each_backing(Test&& test) {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    DeviceAllocatorOptions options;
    options.virtual_memory = virtual_memory;
    test(options);
  }
}

struct MemoryTest : Simulation {
  explicit MemoryTest(const sim::Config& config = {}, DeviceAllocatorOptions options = {})
      : Simulation(config, memory_options(std::move(options))),
        memory(runtime->memory(Device::cuda(0))) {}

  [[nodiscard]] Stream stream() { return runtime->create_stream(Device::cuda(0)); }
  [[nodiscard]] MemoryCounters counters() const { return memory.counters(); }

  /// Whether memory that `earlier` and `later` both use is used in that order: `later` has been
  /// given [b, b + bytes_b), `earlier` used [a, a + bytes_a) in work that is named "earlier" in the
  /// log and still pending. Runs all that `later` can run by itself.
  [[nodiscard]] bool apart_or_in_order(const void* a, std::size_t bytes_a, const void* b,
                                       std::size_t bytes_b, StreamRef later) {
    log.submit(later, "later");
    run_stream(later);
    const bool overtakes = log.is_done("later") && !log.is_done("earlier");
    return !overtakes || !overlap(a, bytes_a, b, bytes_b);
  }

  DeviceAllocator& memory;
};

}  // namespace berth::test
