// SPDX-License-Identifier: Apache-2.0
// Runs what instructions.py counts under callgrind: each section once with some steps and once with
// twice as many, so that the difference is the steps alone. A section is dumped under the name of
// the benchmark that times the same, and the number of operations that were in it.
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <valgrind/callgrind.h>
#include <vector>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "workloads/pair.hpp"
#include "workloads/random_live_set.hpp"
#include "workloads/replay.hpp"
#include "workloads/synthetic_traces.hpp"

namespace {

using namespace berth;
using namespace berth::bench;

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

/// Copies of 8 bytes from pageable memory to the device.
class SmallCopies {
 public:
  explicit SmallCopies(Session& session)
      : copier_(session.runtime().copier()),
        stream_(session.stream()),
        target_(session.runtime().memory(session.device()).allocate(kBytes, stream_)) {}
  void step() { copier_.copy_async(target_.data(), source_.data(), kBytes, stream_); }

 private:
  static constexpr std::size_t kBytes = 8;

  Copier& copier_;
  const StreamRef stream_;
  const Allocation target_;
  const std::array<std::byte, kBytes> source_{};
};

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
  add_small_copies(session);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
