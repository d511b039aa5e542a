// SPDX-License-Identifier: Apache-2.0
// How many driver calls does an allocator make once its cache is warm? Calls for one allocation and
// its free. Unlike times, these do not depend on the machine's speed or load.
//   driver_calls_steady           blocks of one size that come from the cache
//   driver_calls_random_live_set  rows: live blocks
//   driver_calls_replay           rows: traces
#include <memory>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"
#include "workloads/random_live_set.hpp"
#include "workloads/replay.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kSteps = 100'000;

template <class Run>
void add_count(Session& session, const std::string& figure, const char* peer,
               const std::string& row, Run run) {
  add(session, figure, peer, row, std::move(run))->Iterations(1);
}

template <class Allocator>
void add_pairs(Session& session) {
  add_count(session, "driver_calls_steady", Allocator::kName, "", [&](benchmark::State& state) {
    Allocator allocator(session);
    HitPair pair(allocator, 64_KiB, session.stream());
    count_driver_calls(state, session, pair, kSteps);
  });
}

template <class Allocator>
void add_random_live_set(Session& session) {
  const std::size_t live = 1024;
  const auto replacements = std::make_shared<const Replacements>(live);
  add_count(session, "driver_calls_random_live_set", Allocator::kName, std::to_string(live),
            [&session, replacements](benchmark::State& state) {
              Allocator allocator(session);
              RandomLiveSet set(allocator, *replacements, session.stream());
              count_driver_calls(state, session, set, kSteps);
            });
}

template <class Allocator>
void add_replay(Session& session, std::shared_ptr<const std::vector<ReplayPlan>> plans) {
  for (const ReplayPlan& plan : *plans) {
    add_count(session, "driver_calls_replay", Allocator::kName, plan.name,
              [&session, &plan, plans](benchmark::State& state) {
                Allocator allocator(session);
                Replay replay(allocator, plan, session.streams(plan.streams));
                const std::size_t pairs = plan.operations.size() / 2;
                count_driver_calls(state, session, replay, 1, pairs);
              });
  }
}

}  // namespace

void add_benchmarks(Session& session) {
  const auto plans = std::make_shared<const std::vector<ReplayPlan>>(read_replay_plans());
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    if constexpr (Allocator::kCallsDriver && !std::is_same_v<Allocator, DriverAllocator>) {
      add_pairs<Allocator>(session);
      add_random_live_set<Allocator>(session);
      add_replay<Allocator>(session, plans);
    }
  });
  add_pairs<DriverAllocator>(session);
}

}  // namespace berth::bench
