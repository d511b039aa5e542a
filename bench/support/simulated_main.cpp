// SPDX-License-Identifier: Apache-2.0
#include "support/simulated_main.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <benchmark/benchmark.h>

#include "sim/config.hpp"

namespace berth::bench {

int run_simulated(int argc, char** argv, const char* binary, void (*add_benchmarks)()) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const char* driver = std::getenv("BERTH_DRIVER");
  if (driver != nullptr && std::string_view(driver) != "sim") {
    std::fprintf(stderr, "left out: %s: BERTH_DRIVER names another driver\n", binary);
    return 0;
  }
  benchmark::AddCustomContext("driver", "sim");
  benchmark::AddCustomContext("device", sim::Config{}.name);
  try {
    add_benchmarks();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace berth::bench
