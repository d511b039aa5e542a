// SPDX-License-Identifier: Apache-2.0
// What does a real program's allocation cost? Nanoseconds for one allocation or one free of a
// recorded trace, from the fifth pass on. Rows: traces.
//   replay_mean  the mean
//   replay_p999  what one operation of a thousand exceeds
#include "workloads/replay.hpp"

#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/operation_times.hpp"

namespace berth::bench {
namespace {

// The number of operations of which a hundred exceed the quantile.
constexpr std::size_t kTimedOperations = 100'000;

template <class Allocator>
void add_replays(Session& session, const ReplayPlan& plan) {
  add(session, "replay_mean", Allocator::kName, plan.name,
      [&session, &plan](benchmark::State& state) {
        Allocator allocator(session);
        Replay replay(allocator, plan, session.streams(plan.streams));
        replay.warm_up();
        time_steps(state, replay, plan.operations.size());
      });
  add(session, "replay_p999", Allocator::kName, plan.name,
      [&session, &plan](benchmark::State& state) {
        Allocator allocator(session);
        Replay replay(allocator, plan, session.streams(plan.streams));
        replay.warm_up();
        const std::size_t passes = kTimedOperations / plan.operations.size() + 1;
        OperationTimes times(passes * plan.operations.size());
        for (auto _ : state) {
          for (std::size_t pass = 0; pass < passes; ++pass) {
            for (const ReplayPlan::Operation& operation : plan.operations)
              times.add([&] { replay.run(operation); });
          }
        }
        state.counters["ns"] = times.quantile_ns(0.999);
      })
      ->Iterations(1);
}

}  // namespace

void add_benchmarks(Session& session) {
  // Static, because the registered benchmarks use it.
  static const std::vector<ReplayPlan> plans = read_replay_plans();
  if (plans.empty()) leave_out("replay_mean", "there are no traces (BERTH_BENCH_TRACES=DIR)");
  const bool with_driver = session.simulated();
  if (!with_driver) leave_out("driver in replay_mean", "it takes minutes a pass on a real device");
  for (const ReplayPlan& plan : plans) {
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      if (std::is_same_v<Allocator, DriverAllocator> && !with_driver) return;
      add_replays<Allocator>(session, plan);
    });
  }
}

}  // namespace berth::bench
