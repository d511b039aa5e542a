// SPDX-License-Identifier: Apache-2.0
// The memory that an allocator takes from the device, and its cost. Each measurement uses a new
// simulated device, has the same result on each machine, and throws if the allocator refuses a
// request that it should serve.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "peers/berth_allocator.hpp"
#include "sim/work/cost_model.hpp"
#include "support/simulated_session.hpp"
#include "workloads/checkerboard.hpp"
#include "workloads/measured_memory.hpp"
#include "workloads/replay.hpp"
#include "workloads/steady_load.hpp"

namespace berth::bench {

inline constexpr std::array kRandomWasteSizes = {kUniformSmall, kLogSmall, kLogLarge};

/// Waste in the first `passes` of a trace.
template <class Allocator, class... Options>
double trace_waste(const ReplayPlan& plan, int passes, const Options&... options) {
  SimulatedSession machine;
  MeasuredMemory<Allocator> memory(machine.session(), options...);
  Replay replay(memory, plan, machine.session().streams(plan.streams));
  for (int pass = 1; pass < passes; ++pass) replay.step();
  return memory.waste();
}

template <class Allocator>
double random_waste(const SizeRange& range) {
  SimulatedSession machine;
  MeasuredMemory<Allocator> memory(machine.session());
  run_steady_load(memory, range, machine.session().stream());
  return memory.waste();
}

template <class Allocator>
double checkerboard_waste() {
  SimulatedSession machine;
  MeasuredMemory<Allocator> memory(machine.session());
  run_checkerboard(memory, machine.session().stream());
  return memory.waste();
}

/// The virtual time of the calls that create and map `bytes` once: a cuMemCreate and a cuMemMap for
/// each granule, and one cuMemSetAccess for all.
inline double mapping_ns(std::size_t bytes, std::size_t granule_bytes) {
  const std::size_t granules = align_up(bytes, granule_bytes) / granule_bytes;
  const std::uint64_t granule_ns =
      sim::call_ns(sim::Function::k_cuMemCreate) + sim::call_ns(sim::Function::k_cuMemMap);
  return static_cast<double>(granules * granule_ns + sim::call_ns(sim::Function::k_cuMemSetAccess));
}

/// The virtual time of the first pass, including the creation of the allocator, divided by
/// mapping_ns() of the peak of live bytes. Only driver calls take virtual time.
template <class Allocator, class... Options>
double first_pass_driver_cost(const ReplayPlan& plan, const Options&... options) {
  SimulatedSession machine(80_GiB, sim::Progress::timed);
  const std::vector<StreamRef> streams = machine.session().streams(plan.streams);
  const std::uint64_t start_ns = machine.simulator().now_ns();
  Allocator allocator(machine.session(), options...);
  const Replay replay(allocator, plan, streams);
  const std::uint64_t pass_ns = machine.simulator().now_ns() - start_ns;
  return static_cast<double>(pass_ns) /
         mapping_ns(plan.bytes_live_peak,
                    sim::Config::parse(machine.simulator().config()).granularity);
}

/// Calls of the driver in the last of `passes` identical ones.
template <class Allocator>
std::uint64_t driver_calls_of_pass(const ReplayPlan& plan, int passes) {
  SimulatedSession machine;
  Allocator allocator(machine.session());
  Replay replay(allocator, plan, machine.session().streams(plan.streams));
  for (int pass = 2; pass < passes; ++pass) replay.step();
  const std::uint64_t calls_before = machine.session().driver_calls();
  replay.step();
  return machine.session().driver_calls() - calls_before;
}

/// The share of allocations that `path`, one of MemoryCounters' totals, counts in the last of
/// `passes` identical passes.
inline double share_of_path(const ReplayPlan& plan, int passes,
                            std::uint64_t MemoryCounters::*path) {
  SimulatedSession machine;
  BerthAllocator allocator(machine.session());
  Replay replay(allocator, plan, machine.session().streams(plan.streams));
  for (int pass = 2; pass < passes; ++pass) replay.step();
  const MemoryCounters before = allocator.counters();
  replay.step();
  const MemoryCounters after = allocator.counters();
  return static_cast<double>(after.*path - before.*path) /
         static_cast<double>(after.allocations - before.allocations);
}

/// The size of the device for a trace: its peak plus 2 %, in whole granules.
inline std::size_t squeezed_device_bytes(const ReplayPlan& plan) {
  return align_up(plan.bytes_live_peak + plan.bytes_live_peak / 50, sim::Config{}.granularity);
}

/// Requests of one pass that are refused on a device of squeezed_device_bytes().
template <class Allocator>
std::size_t refused_when_squeezed(const ReplayPlan& plan) {
  SimulatedSession machine(squeezed_device_bytes(plan));
  Allocator allocator(machine.session());
  const std::vector<StreamRef> streams = machine.session().streams(plan.streams);
  std::vector<Block> blocks(plan.slots);
  std::size_t refused = 0;
  for (const auto& [slot, bytes, stream] : plan.operations) {
    if (bytes == 0) {
      if (blocks[slot].data != nullptr) deallocate(allocator, blocks[slot], streams[stream]);
      continue;
    }
    try {
      allocate(allocator, blocks[slot], bytes, streams[stream]);
    } catch (const OutOfMemory&) {
      ++refused;
    }
  }
  return refused;
}

}  // namespace berth::bench
