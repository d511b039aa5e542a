// SPDX-License-Identifier: Apache-2.0
// Measures the enumeration of devices. Nanoseconds for one registry of a machine with 64 devices,
// of which CUDA_VISIBLE_DEVICES lists every second one by UUID; NVML and the driver are already
// initialized. It has its own main(), without peers and Session, because it configures its own
// machine.
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/functions.hpp"
#include "sim/simulator.hpp"
#include "support/simulated_main.hpp"

namespace {

using namespace berth;

constexpr std::size_t kDevices = 64;

DriverSource simulated() {
  return {.name = "sim",
          .resolve = [](const char* symbol, int) { return sim::resolve(symbol); },
          .problem = {},
          .library = {}};
}

std::string every_second_device(const Nvml& nvml) {
  std::string list;
  bool named = false;
  for (const KnownDevice& device : nvml.devices()) {
    if ((named = !named)) list += device.uuid + ",";
  }
  return list;
}

void resolve_devices(benchmark::State& state) {
  const sim::Simulator simulator("devices=" + std::to_string(kDevices));
  const Nvml nvml(simulated());
  setenv("CUDA_VISIBLE_DEVICES", every_second_device(nvml).c_str(), 1);
  const Driver driver(simulated(), {});
  for (auto _ : state) {
    const DeviceRegistry registry(driver, nvml);
    if (registry.count() != kDevices / 2 || registry.physical_devices().size() != kDevices)
      state.SkipWithError("the devices are not those of the machine");
  }
  state.SetItemsProcessed(state.iterations());
  unsetenv("CUDA_VISIBLE_DEVICES");
}

void add_benchmarks() {
  benchmark::RegisterBenchmark("resolve_devices_64/berth", resolve_devices);
}

}  // namespace

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "devices", add_benchmarks);
}
