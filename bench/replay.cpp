// SPDX-License-Identifier: Apache-2.0
// What does a real program's allocation cost? Nanoseconds for one allocation or one free of a
// recorded trace, in a pass that finds the cache as the pass before left it. Rows: traces.
#include "workloads/replay.hpp"

#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  const auto plans = std::make_shared<const std::vector<ReplayPlan>>(read_replay_plans());
  if (plans->empty()) leave_out("replay_mean", "there are no traces (BERTH_BENCH_TRACES=DIR)");
  const bool with_driver = session.simulated();
  if (!with_driver) leave_out("driver in replay_mean", "it takes minutes a pass on a real device");
  for (const ReplayPlan& plan : *plans) {
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      if (std::is_same_v<Allocator, DriverAllocator> && !with_driver) return;
      add(session, "replay_mean", Allocator::kName, plan.name,
          [&session, &plan, plans](benchmark::State& state) {
            Allocator allocator(session);
            Replay replay(allocator, plan, session.streams(plan.streams));
            time_steps(state, replay, plan.operations.size());
          });
    });
  }
}

}  // namespace berth::bench
