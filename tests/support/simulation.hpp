// SPDX-License-Identifier: Apache-2.0
// A simulated driver with a Runtime on it, and the steps of a test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "berth/runtime.hpp"

#include "sim/simulator.hpp"
#include "support/hardware.hpp"
#include "support/reports.hpp"
#include "support/work_log.hpp"

namespace berth::test {

inline sim::Config manual_progress(sim::Config config = {}) {
  config.progress = sim::Progress::manual;
  return config;
}

/// The number of calls of one driver function, or of all if none is named, by a Runtime.
inline std::uint64_t driver_calls(const Runtime& runtime, std::string_view function = {}) {
  std::uint64_t calls = 0;
  for (const DriverCallCount& count : runtime.statistics().driver_calls) {
    if (function.empty() || count.function == function) calls += count.calls;
  }
  return calls;
}

/// One simulator and one Runtime on it. Destruction fails the test if the Runtime left an object
/// alive in the driver, or reported an error that the test did not expect.
class Simulation {
 public:
  explicit Simulation(const sim::Config& config = {}, RuntimeOptions options = {})
      : simulator(on_hardware(config)) {
    options.driver = "sim";
    options.report = reports.sink();
    runtime.emplace(std::move(options));
  }
  ~Simulation() {
    runtime.reset();
    for (const std::string& left : simulator.live_list()) FAIL_CHECK("left alive: ", left);
    if (errors_expected) return;
    for (const Report& report : reports.all()) {
      if (report.severity == Severity::error) FAIL_CHECK("reported: ", report.message);
    }
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Runs one operation of `stream`; false if none may run.
  bool run_next(StreamRef stream) {
    const DeviceGuard guard(runtime->devices(), stream.device());  // default streams need one
    return simulator.run_next(stream.native());
  }
  /// Runs all operations of `stream` that may run, and none of other streams.
  void run_stream(StreamRef stream) {
    while (run_next(stream)) {
    }
  }

  bool errors_expected = false;
  Reports reports;
  WorkLog log;
  sim::Simulator simulator;
  std::optional<Runtime> runtime;
};

}  // namespace berth::test
