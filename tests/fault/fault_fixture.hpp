// SPDX-License-Identifier: Apache-2.0
// Programs that are run once for each driver call that they make, with that call refused. A refused
// call does nothing. Whatever it stood in for, the step that made it either copes or throws a
// berth::Error; then every invariant holds, the same step succeeds, and nothing is left in the
// driver.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"
#include "berth/copier.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/host_allocator.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/stream_pool.hpp"

#include "device/device_context.hpp"
#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/simulator.hpp"
#include "support/allocator_checks.hpp"
#include "support/driver_tap.hpp"
#include "support/errors.hpp"
#include "support/reports.hpp"
#include "support/work_log.hpp"

namespace berth::test {

/// A program takes little pinned memory, and runs thousands of times: the kernel clears each page.
inline PinnedAllocatorOptions small_segments() {
  PinnedAllocatorOptions options;
  options.segment_bytes = 1_MiB;
  return options;
}

/// Everything that a program may use. Each part is made by the program, so that its construction
/// can fail too; destruction may meet the refused call as well.
struct World {
  explicit World(const sim::Config& config) : simulator(config) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] DeviceContext& context(int device = 0) {
    return registry->context(Device::cuda(device));
  }

  void check_invariants() const {
    if (memory) check_whole(*memory);
    if (other_memory) check_whole(*other_memory);
    if (pinned) check_whole(*pinned);
  }

  void make_copier(CopierOptions options = {}) {
    completions.emplace([this](DeviceContext& of) -> EventPool& {
      return of.device().ordinal() == 0 ? *events : *other_events;
    });
    copier.emplace(*registry, *pinned, host.emplace(*registry, HostAllocatorOptions{}),
                   *completions, options);
  }

  /// Everything goes away, in the order in which a program lets go.
  void let_go() {
    streams.clear();
    blocks.clear();
    copier.reset();
    completions.reset();
    host.reset();
    pinned.reset();
    other_memory.reset();
    memory.reset();
    stream_pool.reset();
    other_events.reset();
    events.reset();
    registry.reset();
  }

  Reports reports;
  WorkLog log;
  sim::Simulator simulator;
  DriverTap tap;
  std::optional<Driver> driver;
  std::optional<Nvml> nvml;
  std::optional<DeviceRegistry> registry;
  std::optional<EventPool> events;
  std::optional<EventPool> other_events;  ///< of cuda:1
  std::optional<StreamPool> stream_pool;
  std::optional<DeviceAllocator> memory;
  std::optional<DeviceAllocator> other_memory;  ///< of cuda:1
  std::optional<PinnedAllocator> pinned;
  std::optional<HostAllocator> host;
  std::optional<CompletionQueue> completions;
  std::optional<Copier> copier;
  std::vector<Allocation> blocks;
  std::deque<Stream> streams;
};

struct Step {
  std::string name;
  std::function<void(World&)> run;
};

struct Program {
  sim::Config config;
  /// What is not under test, done before calls are refused.
  std::function<void(World&)> prepare;
  std::vector<Step> steps;
};

/// Runs `program` once undisturbed, and once for each call of each function that it made, refused
/// with each of a few codes.
void survives_every_fault(const Program& program);

}  // namespace berth::test
