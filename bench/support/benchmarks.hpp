// SPDX-License-Identifier: Apache-2.0
// How a benchmark is registered and what it reports, which is what report.py joins:
//
//   name      figure/peer or figure/peer/row; the rows of one figure differ in size or input
//   result    items_per_second, where an item is the figure's operation; or a counter that is named
//             by its unit: `calls` of one operation, or `ns`
//   clock     CPU time of the thread on the simulated driver, where nothing ever waits, so that
//             other load on the machine does not count; wall time on a real driver and wherever
//             several threads run
//
// benchmark::DoNotOptimize is not used: compiled by GCC, the one of Google Benchmark 1.7 can change
// the value. The timed code calls other translation units, and compilers do not remove such calls.
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "support/session.hpp"

namespace berth::bench {

/// Each benchmark binary defines this one: registers its benchmarks.
void add_benchmarks(Session& session);

/// Prints a line that report.py passes on: this run lacks a peer or a figure, with the reason.
inline void leave_out(const char* what, const char* reason) {
  std::fprintf(stderr, "left out: %s: %s\n", what, reason);
}

/// The label of a benchmark without a value, which leave_out() has reported.
inline constexpr const char* kLeftOut = "left out";

/// Registers `run(benchmark::State&)`, on `threads` threads at once. An exception becomes the
/// benchmark's error. With several threads, set the number of iterations: Google Benchmark would
/// derive it from a first iteration, which may include the start of a thread.
template <class Run>
benchmark::internal::Benchmark* add(const Session& session, const std::string& figure,
                                    const std::string& peer, const std::string& row, Run run,
                                    int threads = 1) {
  const std::string name = figure + "/" + peer + (row.empty() ? "" : "/" + row);
  auto* registered = benchmark::RegisterBenchmark(
      name.c_str(), [&session, run = std::move(run)](benchmark::State& state) {
        try {
          session.enter_thread();
          run(state);
        } catch (const std::exception& error) {
          state.SkipWithError(error.what());
        }
      });
  if (threads > 1) registered->Threads(threads);
  if (threads > 1 || !session.simulated()) registered->UseRealTime();
  return registered;
}

/// Times `workload.step()`, which is `operations` operations.
template <class Workload>
void time_steps(benchmark::State& state, Workload& workload, std::size_t operations = 1) {
  for (auto _ : state) workload.step();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(operations));
}

}  // namespace berth::bench
