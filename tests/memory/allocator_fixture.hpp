// SPDX-License-Identifier: Apache-2.0
// The machine of both allocators by itself, on a tapped device of 64 MiB in manual progress: work
// is pending until a test runs it or the host waits for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/pressure_callback.hpp"
#include "memory/source/arena_segments.hpp"
#include "memory/source/whole_segments.hpp"
#include "support/tapped_device.hpp"

namespace berth::test {

inline constexpr std::size_t kAllocatorDeviceBytes = 64_MiB;

enum class Backing { arena, segments };

struct AllocatorSetup {
  Backing backing = Backing::arena;
  std::optional<std::size_t> bytes_reserved_max = std::nullopt;
  std::function<bool(std::size_t)> on_pressure = nullptr;
  CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;
  std::size_t device_bytes = kAllocatorDeviceBytes;
};

class AllocatorFixture : public TappedDevice {
 public:
  static constexpr std::size_t kDeviceBytes = kAllocatorDeviceBytes;
  static constexpr std::size_t kGranuleBytes = 2_MiB;
  static constexpr std::size_t kSegmentBytes = 20_MiB;

  explicit AllocatorFixture(AllocatorSetup setup = {})
      : TappedDevice(config(setup.device_bytes)),
        budget({.max = setup.bytes_reserved_max.value_or(MemoryBudget::kNoLimit)}),
        pressure(std::move(setup.on_pressure)) {
    allocator.emplace(
        driver,
        CachingAllocator::Options{
            .name = "cuda:0",
            .budget = budget,
            .cross_stream_reuse = setup.cross_stream_reuse,
            .on_pressure = [this](std::size_t bytes) { return pressure.call(bytes); },
            .events = [this](DeviceContext&) -> EventPool& { return events; }},
        [&](BlockHeap& heap) -> std::unique_ptr<SegmentSource> {
          if (setup.backing == Backing::segments)
            return std::make_unique<DeviceSegments>(context, kSegmentBytes, setup.device_bytes);
          return std::make_unique<ArenaSegments>(context, heap, kGranuleBytes, setup.device_bytes);
        });
    context.add_observer(*allocator);
  }
  ~AllocatorFixture() { end(); }

  /// Destroys the allocator, once all work is done.
  void end() {
    if (!allocator) return;
    allocator->validate();
    simulator.run_all();
    context.remove_observer(*allocator);
    allocator.reset();
  }

  void* allocate(std::size_t bytes, std::optional<StreamRef> stream) {
    void* data =
        stream ? allocator->allocate(bytes, *stream) : allocator->allocate(bytes, std::nullopt);
    allocator->validate();
    return data;
  }
  void free(void* data) {
    allocator->deallocate(data);
    allocator->validate();
  }
  /// Frees a block that work named `use`, submitted to `user` now, still uses.
  void free_used_by(void* data, StreamRef user, const std::string& use) {
    allocator->record_stream(data, user);
    log.submit(user, use);
    free(data);
  }
  /// Whether `later` has to wait for the work named `earlier`. Runs what `later` can run by itself.
  [[nodiscard]] bool runs_behind(StreamRef later, const std::string& earlier) {
    REQUIRE_FALSE(log.is_done(earlier));
    log.submit(later, "behind " + earlier);
    run_stream(later);
    return !log.is_done("behind " + earlier);
  }
  [[nodiscard]] MemoryCounters counters() const { return allocator->counters(); }
  [[nodiscard]] std::uint64_t driver_calls() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t calls : driver.calls()) sum += calls;
    return sum;
  }

  MemoryBudget budget;
  PressureHook pressure;
  std::optional<CachingAllocator> allocator;

 private:
  static sim::Config config(std::size_t device_bytes) {
    sim::Config config;
    config.memory = {device_bytes};
    config.progress = sim::Progress::manual;
    return config;
  }
};

/// The same where memory comes in segments of cuMemAlloc.
struct SegmentsAllocatorFixture : AllocatorFixture {
  SegmentsAllocatorFixture() : AllocatorFixture({.backing = Backing::segments}) {}
};

}  // namespace berth::test
