// SPDX-License-Identifier: Apache-2.0
// The main() of every benchmark binary. Exit status 77, which test harnesses treat as skipped, if
// the driver is not usable.
#include <cstdio>
#include <exception>

#include <benchmark/benchmark.h>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "support/session.hpp"

namespace {

constexpr int kSkipped = 77;

int run() {
  berth::bench::Session session;
  if (const std::string problem = session.problem(); !problem.empty()) {
    std::fprintf(stderr, "skipped: %s\n", problem.c_str());
    return kSkipped;
  }
  session.enter_thread();
  benchmark::AddCustomContext("driver", session.runtime().driver().name);
  benchmark::AddCustomContext("device",
                              session.runtime().devices().physical_devices().front().name);
  berth::bench::leave_out_missing_peers();
  berth::bench::add_benchmarks(session);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
