// SPDX-License-Identifier: Apache-2.0
// Runs what instructions.py counts under callgrind: each section once with some steps and once with
// twice as many, so that the difference is the steps alone. A section is dumped under the name of
// the benchmark that times the same, and the number of operations that were in it.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <valgrind/callgrind.h>
#include <vector>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "workloads/cuda_paths.hpp"
#include "workloads/pair.hpp"
#include "workloads/random_live_set.hpp"
#include "workloads/replay.hpp"
#include "workloads/synthetic_traces.hpp"

namespace {

using namespace berth;
using namespace berth::bench;

/// The argument, and the peer of its figures.
constexpr const char* kBesideBackend = "beside_backend";

/// `run(steps)` calls count_steps() once.
template <class Run>
void add_section(const std::string& name, std::size_t steps, std::size_t operations_per_step,
                 Run run) {
  for (const std::size_t of : {steps, 2 * steps}) {
    run(of);
    const std::string dump = name + " " + std::to_string(of * operations_per_step);
    CALLGRIND_DUMP_STATS_AT(dump.c_str());
  }
}

template <class Workload>
void count_steps(Workload& workload, std::size_t steps) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  for (std::size_t step = 0; step < steps; ++step) workload.step();
  CALLGRIND_STOP_INSTRUMENTATION;
}

template <class Allocator>
void add_pairs(Session& session) {
  for (const std::size_t bytes : {std::size_t{512}, 64_KiB, 8_MiB}) {
    add_section(std::string("pair_hit/") + Allocator::kName + "/" + std::to_string(bytes), 1000, 1,
                [&](std::size_t steps) {
                  Allocator allocator(session);
                  HitPair pair(allocator, bytes, session.stream());
                  count_steps(pair, steps);
                });
  }
}

template <class Allocator>
void add_random_live_sets(Session& session) {
  for (const std::size_t live : {std::size_t{64}, std::size_t{1024}}) {
    const Replacements replacements(live);
    add_section(std::string("random_live_set/") + Allocator::kName + "/" + std::to_string(live),
                2000, 1, [&](std::size_t steps) {
                  Allocator allocator(session);
                  RandomLiveSet set(allocator, replacements, session.stream());
                  count_steps(set, steps);
                });
  }
}

template <class Allocator>
void add_replays(Session& session, const std::string& figure,
                 const std::vector<std::pair<std::string, ReplayPlan>>& plans) {
  for (const auto& [row, plan_of_row] : plans) {
    const ReplayPlan& plan = plan_of_row;  // Clang 14 lets no lambda have a structured binding
    add_section(figure + "/" + Allocator::kName + "/" + row, 1, plan.operations.size(),
                [&](std::size_t passes) {
                  Allocator allocator(session);
                  Replay replay(allocator, plan, session.streams(plan.streams));
                  replay.warm_up();
                  count_steps(replay, passes);
                });
  }
}

/// The row is the number of copies before those that are counted.
void add_small_copies(Session& session) {
  for (const int before : {10, 30'000}) {
    add_section("copy_small_in/berth/" + std::to_string(before), 1000, 1, [&](std::size_t steps) {
      SmallCopies copies(session);
      for (int copy = 0; copy < before; ++copy) copies.step();
      count_steps(copies, steps);
      session.stream().sync();
    });
  }
}

/// `peer`: the state of the Runtime.
void add_cuda_paths(Session& session, const std::string& peer) {
  constexpr std::size_t kSteps = 1000;
  const auto add = [&](const char* row, auto make) {
    add_section("cuda_path/" + peer + "/" + row, kSteps, 1, [&](std::size_t steps) {
      auto path = make();
      for (int step = 0; step < 10; ++step) path.step();
      count_steps(path, steps);
      session.stream().sync();
    });
  };
  BerthAllocator allocator(session);
  add("pair_hit", [&] { return HitPair(allocator, 512, session.stream()); });
  add("memory", [&] { return LookUpMemory(session); });
  add("resolve", [&] { return ResolveDevice(session); });
  add("guard", [&] { return EnterDevice(session); });
  add("copy", [&] { return SmallCopies(session); });
}

void run_small_copies() {
  Session session;
  session.enter_thread();
  add_small_copies(session);
}

/// In a process of its own, as that without a backend, so that nothing else differs.
void run_beside_backend() {
  Session session;
  session.enter_thread();
  const UsedBackend backend(session);
  add_cuda_paths(session, kBesideBackend);
}

void run_cuda_paths() {
  Session session;
  session.enter_thread();
  add_cuda_paths(session, "berth");
}

void run() {
  Session session;
  session.enter_thread();
  leave_out_missing_peers();
  std::vector<std::pair<std::string, ReplayPlan>> recorded;
  for (const ReplayPlan& plan : read_replay_plans()) recorded.emplace_back(plan.name, plan);
  std::vector<std::pair<std::string, ReplayPlan>> in_turns;
  for (const SyntheticTrace& trace : rotations())
    in_turns.emplace_back(trace.name, ReplayPlan(trace.make()));
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    add_pairs<Allocator>(session);
    add_random_live_sets<Allocator>(session);
    add_replays<Allocator>(session, "rotation", in_turns);
    add_replays<Allocator>(session, "replay_mean", recorded);
  });
}

}  // namespace

/// Without an argument the allocators are counted.
int main(int count, char** arguments) {
  try {
    const std::string what = count > 1 ? arguments[1] : "";
    if (what == "cuda_path")
      run_cuda_paths();
    else if (what == kBesideBackend)
      run_beside_backend();
    else if (what == "small_copies")
      run_small_copies();
    else
      run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
