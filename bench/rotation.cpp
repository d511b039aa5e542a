// SPDX-License-Identifier: Apache-2.0
// Measures a program that alternates between sizes. Nanoseconds for one allocation or one free; one
// block is live at a time. Rows: the number of sizes, between 512 B and 8 MiB.
#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/replay.hpp"
#include "workloads/synthetic_traces.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  for (const SyntheticTrace& trace : rotations()) {
    const auto plan = std::make_shared<const ReplayPlan>(trace.make());
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      add(session, "rotation", Allocator::kName, trace.name,
          [&session, plan](benchmark::State& state) {
            Allocator allocator(session);
            Replay replay(allocator, *plan, session.streams(plan->streams));
            time_steps(state, replay, plan->operations.size());
          });
    });
  }
}

}  // namespace berth::bench
