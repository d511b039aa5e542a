// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a pair in a heap with many holes. Nanoseconds for one allocation and its
// free, one thread, one stream. One figure for each number of holes.
#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/holes.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kHolesMost = 65536;

template <class Allocator>
void add_holes(Session& session, std::size_t holes, std::shared_ptr<const HolesPlan> plan) {
  add(session, "pair_holes_" + std::to_string(holes), Allocator::kName, "",
      [&session, plan](benchmark::State& state) {
        Allocator allocator(session);
        Holes heap(allocator, *plan, session.stream());
        time_steps(state, heap);
      });
}

}  // namespace

void add_benchmarks(Session& session) {
  for (const std::size_t holes : {std::size_t{64}, kHolesMost}) {
    const auto plan = std::make_shared<const HolesPlan>(holes);
    const bool slow_on_device = !session.simulated() && holes == kHolesMost;
    if (slow_on_device)
      leave_out("cub and driver in pair_holes_65536", "131,072 driver calls on a real device");
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      if (slow_on_device && Allocator::kCallsDriver && !Allocator::kSplits) return;
      add_holes<Allocator>(session, holes, plan);
    });
  }
}

}  // namespace berth::bench
