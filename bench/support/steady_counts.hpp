// SPDX-License-Identifier: Apache-2.0
// Figures that count something once an allocator's cache is warm: what happens for one allocation
// and its free. Unlike times, these do not depend on the machine's speed or load.
//   WHAT_steady           blocks of one size that come from the cache
//   WHAT_random_live_set  rows: live blocks
//   WHAT_replay           rows: traces
//   WHAT_pinned           one block of pinned memory, which comes from the cache
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"

#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"
#include "workloads/pinned_pair.hpp"
#include "workloads/random_live_set.hpp"
#include "workloads/replay.hpp"

namespace berth::bench {

class SteadyCounts {
 public:
  /// `count` returns the number of events so far on the calling thread.
  SteadyCounts(Session& session, std::string what, std::function<std::uint64_t()> count)
      : session_(session), what_(std::move(what)), count_(std::move(count)) {}

  template <class Allocator>
  void add_pairs() {
    add_row("_steady", Allocator::kName, "", [this](benchmark::State& state) {
      Allocator allocator(session_);
      HitPair pair(allocator, 64_KiB, session_.stream());
      report(state, pair, kSteps, kSteps);
    });
  }

  void add_pinned_pairs() {
    add_row("_pinned", "berth", "", [this](benchmark::State& state) {
      PinnedPair pair(session_.runtime().pinned_memory(), 64_KiB);
      report(state, pair, kSteps, kSteps);
    });
  }

  template <class Allocator>
  void add_random_live_set() {
    add_row("_random_live_set", Allocator::kName, std::to_string(kLive),
            [this](benchmark::State& state) {
              Allocator allocator(session_);
              RandomLiveSet set(allocator, *replacements_, session_.stream());
              report(state, set, kSteps, kSteps);
            });
  }

  template <class Allocator>
  void add_replays() {
    for (const ReplayPlan& plan : *plans_) {
      add_row("_replay", Allocator::kName, plan.name, [this, &plan](benchmark::State& state) {
        Allocator allocator(session_);
        Replay replay(allocator, plan, session_.streams(plan.streams));
        replay.warm_up();
        report(state, replay, 1, plan.operations.size() / 2);
      });
    }
  }

 private:
  static constexpr std::size_t kSteps = 100'000;
  static constexpr std::size_t kLive = 1024;

  template <class Run>
  void add_row(const char* suffix, const char* peer, const std::string& row, Run run) {
    add(session_, what_ + suffix, peer, row, std::move(run))->Iterations(1);
  }

  /// Runs `steps` steps, which contain `pairs` pairs.
  template <class Workload>
  void report(benchmark::State& state, Workload& workload, std::size_t steps, std::size_t pairs) {
    std::uint64_t count = 0;
    for (auto _ : state) {
      const std::uint64_t before = count_();
      for (std::size_t step = 0; step < steps; ++step) workload.step();
      count = count_() - before;
    }
    state.counters["calls"] = static_cast<double>(count) / static_cast<double>(pairs);
  }

  Session& session_;
  std::string what_;
  std::function<std::uint64_t()> count_;
  std::unique_ptr<const Replacements> replacements_ = std::make_unique<Replacements>(kLive);
  std::unique_ptr<const std::vector<ReplayPlan>> plans_ =
      std::make_unique<std::vector<ReplayPlan>>(read_replay_plans());
};

}  // namespace berth::bench
