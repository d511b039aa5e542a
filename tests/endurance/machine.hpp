// SPDX-License-Identifier: Apache-2.0
// What a program runs on: a simulated device under a watch, and the allocator on it, composed as
// Runtime does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/device_allocator.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "endurance/driver_watch.hpp"
#include "endurance/mode.hpp"
#include "sim/simulator.hpp"

namespace berth::endurance {

/// One stream after the other in one place. Blocks know by the generation whether theirs is gone.
struct StreamPlace {
  std::optional<Stream> stream;
  std::uint32_t generation = 0;
};

struct Machine {
  Machine(const Mode& mode, std::uint64_t seed);
  /// Everything must be freed. Fails where anything is left, in the allocator or in the driver.
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Destroys the stream, if there is one, whatever is pending on it, and makes another.
  void replace(StreamPlace& place);
  [[nodiscard]] EventLease record(StreamRef stream);
  /// Work on `stream` that uses the block from end to end.
  void use(StreamRef stream, std::uintptr_t address, std::size_t bytes, bool writes);
  /// Sets the first and the last bytes of a block, for has_tag(). More of them would cost more than
  /// the allocator.
  void write_tag(StreamRef stream, std::uintptr_t address, std::size_t bytes, unsigned char tag);
  /// Whether the bytes are there, once all work has run.
  [[nodiscard]] bool has_tag(std::uintptr_t address, std::size_t bytes, unsigned char tag) const;

  DriverWatch watch;
  sim::Simulator simulator;
  std::optional<Driver> driver;
  std::optional<Nvml> nvml;
  std::optional<DeviceRegistry> registry;
  DeviceContext* context = nullptr;
  std::optional<EventPool> events;
  std::optional<DeviceAllocator> memory;
};

}  // namespace berth::endurance
