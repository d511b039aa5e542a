// SPDX-License-Identifier: Apache-2.0
#include "support/session.hpp"

#include <cuda.h>

#include <cstdlib>

#include "driver/driver.hpp"

namespace berth::bench {
namespace {

/// Empty if BERTH_DRIVER names the driver.
std::string default_driver() {
  return std::getenv("BERTH_DRIVER") == nullptr ? "sim" : "";
}

RuntimeOptions options_for(const std::string& driver) {
  RuntimeOptions options;
  options.driver = driver;
  // Poisoning fresh memory is a check of the simulator, which would count as a cost of misses.
  constexpr int keep_what_is_set = 0;
  setenv("BERTH_SIM", "poison=off,checks=off", keep_what_is_set);
  return options;
}

}  // namespace

Session::Session() : Session(default_driver()) {}

Session::Session(const std::string& driver) : runtime_(options_for(driver)) {}

std::string Session::problem() const {
  if (const DriverInfo driver = runtime_.driver(); !driver.usable) return driver.problem;
  if (!runtime_.devices().is_available()) return "the driver has no device";
  return {};
}

bool Session::simulated() const {
  return runtime_.driver().name == "sim";
}

std::function<void*(const char* symbol)> Session::driver_functions() const {
  return [&driver = driver()](const char* symbol) { return driver.find(symbol, CUDA_VERSION); };
}

std::vector<StreamRef> Session::streams(std::size_t count) {
  while (streams_.size() < count) streams_.push_back(runtime_.create_stream(device()));
  return {streams_.begin(), streams_.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t Session::driver_calls() const {
  std::uint64_t calls = 0;
  for (const std::uint64_t of_function : driver().calls()) calls += of_function;
  return calls;
}

}  // namespace berth::bench
