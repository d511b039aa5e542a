// SPDX-License-Identifier: Apache-2.0
// How much memory does an allocator take beyond the requested bytes, and what does it cost to take
// less? waste is peak reserved / peak live - 1.
//   waste_trace             in the first pass of a program. Rows: traces
//   waste_trace_pass10      in ten passes. Rows: traces
//   waste_random            sizes at random, at steady load. Rows: sizes
//   waste_checkerboard      equal blocks, of which every other is freed, then larger ones
//   first_pass_driver_cost  time in the driver over that of mapping the peak once. Rows: traces
//   waste_granule, cost_granule  means of waste_trace_pass10 and first_pass_driver_cost over the
//                                traces.
//                           Rows: sizes of granules
//   driver_calls_pass4      driver calls of the fourth pass. Rows: traces
//   path_NAME               the share of allocations in the fifth pass that take that path. Rows:
//                           traces
//   squeezed                requests refused on a device of the peak and 2 %. Rows: traces
// Simulated devices only, made as each measurement needs them: hence a main() of its own.
#include "workloads/waste.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "berth/error.hpp"

#include "peers/allocators.hpp"
#include "support/simulated_main.hpp"

namespace berth::bench {
namespace {

using Plans = std::shared_ptr<const std::vector<ReplayPlan>>;

/// Registers a figure whose value is the result of `measure`, under report.py's name for its unit.
void add_value(const std::string& figure, const char* peer, const std::string& row,
               const char* unit, const std::function<double()>& measure) {
  const std::string name = figure + "/" + peer + (row.empty() ? "" : "/" + row);
  const auto measure_once = [=](benchmark::State& state) {
    try {
      state.counters[unit] = measure();
    } catch (const Error&) {  // a failure of berth, which must be reported
      throw;
    } catch (const std::bad_alloc&) {  // a peer
      leave_out(name.c_str(), "the device is full");
      state.SetLabel(kLeftOut);
    }
  };
  benchmark::RegisterBenchmark(name.c_str(),
                               [measure_once](benchmark::State& state) {
                                 try {
                                   for (auto _ : state) measure_once(state);
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->Repetitions(1);  // a repetition would have the same result
}

/// `measure(plan)` for each trace.
template <class Measure>
void add_traces(const std::string& figure, const char* peer, const Plans& plans, const char* unit,
                Measure measure) {
  for (const ReplayPlan& plan : *plans)
    add_value(figure, peer, plan.name, unit,
              [&plan, plans, measure] { return static_cast<double>(measure(plan)); });
}

template <class Allocator>
void add_wastes(const Plans& plans) {
  constexpr const char* kPeer = Allocator::kName;
  constexpr const char* kUnit = "percent";
  add_traces("waste_trace", kPeer, plans, kUnit,
             [](const ReplayPlan& plan) { return 100 * trace_waste<Allocator>(plan, 1); });
  add_traces("waste_trace_pass10", kPeer, plans, kUnit,
             [](const ReplayPlan& plan) { return 100 * trace_waste<Allocator>(plan, 10); });
  for (const SizeRange& range : kRandomWasteSizes)
    add_value("waste_random", kPeer, range.name, kUnit,
              [&range] { return 100 * random_waste<Allocator>(range); });
  add_value("waste_checkerboard", kPeer, "", kUnit,
            [] { return 100 * checkerboard_waste<Allocator>(); });
}

/// For allocators that cache freed memory.
template <class Allocator>
void add_steady_calls(const Plans& plans) {
  add_traces("driver_calls_pass4", Allocator::kName, plans, "calls",
             [](const ReplayPlan& plan) { return driver_calls_of_pass<Allocator>(plan, 4); });
}

/// The effect of larger granules on driver time and memory; each granule takes one call.
void add_granules(const Plans& plans) {
  for (const std::size_t mebibytes : {2, 4, 8, 16}) {
    const DeviceAllocatorOptions options{.granule_bytes = mebibytes * 1_MiB};
    const auto mean = [plans](const auto& measure) {
      double sum = 0;
      for (const ReplayPlan& plan : *plans) sum += measure(plan);
      return sum / static_cast<double>(plans->size());
    };
    const std::string row = std::to_string(mebibytes) + "MiB";
    add_value("waste_granule", BerthAllocator::kName, row, "percent", [=] {
      return mean([&](const ReplayPlan& plan) {
        return 100 * trace_waste<BerthAllocator>(plan, 10, options);
      });
    });
    add_value("cost_granule", BerthAllocator::kName, row, "ratio", [=] {
      return mean([&](const ReplayPlan& plan) {
        return first_pass_driver_cost<BerthAllocator>(plan, options);
      });
    });
  }
}

void add_paths(const Plans& plans) {
  constexpr std::pair<const char*, std::uint64_t MemoryCounters::*> kPaths[] = {
      {"path_last_freed", &MemoryCounters::allocations_last_freed},
      {"path_thread_cached", &MemoryCounters::allocations_thread_cached},
      {"path_fitted", &MemoryCounters::allocations_fitted},
      {"path_stitched", &MemoryCounters::allocations_stitched},
      {"path_grown", &MemoryCounters::allocations_grown}};
  for (const auto& [figure, path] : kPaths)
    add_traces(figure, BerthAllocator::kName, plans, "percent",
               [path](const ReplayPlan& plan) { return 100 * share_of_path(plan, 5, path); });
}

void add_measurements() {
  const auto plans = std::make_shared<const std::vector<ReplayPlan>>(read_replay_plans());
  if (plans->empty()) leave_out("waste_trace", "there are no traces (BERTH_BENCH_TRACES=DIR)");
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    if constexpr (Allocator::kCallsDriver) {
      add_wastes<Allocator>(plans);
      if constexpr (!std::is_same_v<Allocator, DriverAllocator>) add_steady_calls<Allocator>(plans);
    }
  });
  // Without peers: the cost model does not depend on sizes, so one call for a gigabyte is cheap.
  add_traces("first_pass_driver_cost", BerthAllocator::kName, plans, "ratio",
             [](const ReplayPlan& plan) { return first_pass_driver_cost<BerthAllocator>(plan); });
  if (!plans->empty()) add_granules(plans);
  add_traces("squeezed", BerthAllocator::kName, plans, "requests_refused",
             refused_when_squeezed<BerthAllocator>);
  add_paths(plans);
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "waste", berth::bench::add_measurements);
}
