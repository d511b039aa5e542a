// SPDX-License-Identifier: Apache-2.0
// What the allocator takes from the device beyond what is live stays below waste_bars.hpp, in the
// workloads of the benchmark `waste`. BERTH_TEST_TRACES names folders, separated by colons; one
// that is missing is passed over, but for that of the project's own traces.
#include "workloads/waste.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "peers/berth_allocator.hpp"
#include "replay/waste_bars.hpp"

using namespace berth;
using namespace berth::bench;
using namespace berth::test;

namespace {

const std::vector<ReplayPlan>& traces() {
  static const std::vector<ReplayPlan> plans = [] {
    const char* folders = std::getenv("BERTH_TEST_TRACES");
    return read_replay_plans(folders == nullptr ? "" : folders);
  }();
  REQUIRE_FALSE(plans.empty());
  return plans;
}

/// `percent`, or more where that is less than kTraceBytesWasted.
double allowed_waste(const ReplayPlan& plan, double percent) {
  return std::max(percent / 100, double(kTraceBytesWasted) / double(plan.bytes_live_peak));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

TEST_CASE("memory used on the device equals the allocator's reserved bytes, at the peak too") {
  SimulatedSession machine;
  MeasuredMemory<BerthAllocator> memory(machine.session());
  run_steady_load(memory, kLogSmall, machine.session().stream());
  const MemoryCounters counters = memory.allocator().counters();
  CHECK(memory.bytes_reserved_peak() == counters.bytes_reserved.peak);
  CHECK(memory.bytes_live_peak() == counters.bytes_requested.peak);
  CHECK(memory.bytes_live_peak() > kSteadyBytes * 99 / 100);
  CHECK(memory.bytes_live_peak() <= kSteadyBytes);
}

TEST_CASE("waste in the first pass stays within the bar of each trace and of the median") {
  std::vector<double> wastes;
  for (const ReplayPlan& plan : traces()) {
    CAPTURE(plan.name);
    wastes.push_back(trace_waste<BerthAllocator>(plan, 1));
    CHECK(wastes.back() >= 0);
    CHECK(wastes.back() <= allowed_waste(plan, bars_of(plan.name).waste_percent));
  }
  const bool are_many = wastes.size() >= kTracesForMedian;
  CHECK(median(wastes) <= (are_many ? kMedianWastePercent : kMedianWastePercentOfFew) / 100);
}

TEST_CASE("no trace wastes more than its bar in ten passes") {
  for (const ReplayPlan& plan : traces()) {
    CAPTURE(plan.name);
    CHECK(trace_waste<BerthAllocator>(plan, 10) <=
          allowed_waste(plan, bars_of(plan.name).waste_pass10_percent));
  }
}

TEST_CASE("a trace succeeds on a device with 2 % more memory than its peak") {
  for (const ReplayPlan& plan : traces()) {
    CAPTURE(plan.name);
    CHECK(refused_when_squeezed<BerthAllocator>(plan) <= bars_of(plan.name).squeezed_refused);
  }
}

TEST_CASE("the fourth pass of a trace makes no driver call") {
  for (const ReplayPlan& plan : traces()) {
    CAPTURE(plan.name);
    CHECK(driver_calls_of_pass<BerthAllocator>(plan, 4) <= bars_of(plan.name).pass4_calls);
  }
}

TEST_CASE("random sizes at steady load waste no more than their bars") {
  for (std::size_t index = 0; index < kRandomWasteSizes.size(); ++index) {
    CAPTURE(kRandomWasteSizes[index].name);
    CHECK(random_waste<BerthAllocator>(kRandomWasteSizes[index]) <=
          kRandomWastePercent[index] / 100);
  }
}

TEST_CASE("a checkerboard of ever larger blocks wastes no more than its bar") {
  CHECK(checkerboard_waste<BerthAllocator>() <= kCheckerboardWastePercent / 100);
}

TEST_CASE("the driver's time of a first pass is measured against mapping the peak once") {
  const ReplayPlan& plan = traces().front();
  // Two granules and a bit, which take three.
  CHECK(mapping_ns(2 * 2_MiB + 1, 2_MiB) > mapping_ns(2 * 2_MiB, 2_MiB));
  CHECK(mapping_ns(3 * 2_MiB, 2_MiB) == mapping_ns(2 * 2_MiB + 1, 2_MiB));
  CHECK(first_pass_driver_cost<BerthAllocator>(plan) >= 1);
}
