// SPDX-License-Identifier: Apache-2.0
// Measures collective copies over the devices of a machine. Nanoseconds of virtual time on
// simulated links (workloads/virtual_collectives.hpp), so that the values do not depend on the
// machine. Each is compared with a naive loop of copies. Rows: devices
//   broadcast_device  1 GiB of device 0 to all others; the loop is on the stream of device 0
//   broadcast_host    1 GiB of pinned memory to all; each copy of the loop is on its device's
//                     stream
//   scatter_host      equal parts of 1 GiB of pinned memory; the loop waits for each part
//   gather_host       the same back
#include <cstdint>
#include <exception>
#include <string>

#include <benchmark/benchmark.h>

#include "support/simulated_main.hpp"
#include "workloads/virtual_collectives.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 1_GiB;

using Measure = std::uint64_t (VirtualCollectives::*)();

void add(const std::string& name, int devices, Measure measure) {
  const auto run = [=](benchmark::State& state) {
    try {
      VirtualCollectives machine(devices, kBytes);
      for (auto _ : state) state.counters["ns"] = static_cast<double>((machine.*measure)());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark((name + "/" + std::to_string(devices)).c_str(), run)
      ->Iterations(1)
      ->Repetitions(1);
}

void add_measurements() {
  for (const int devices : {2, 4, 8}) {
    add("broadcast_device/berth", devices, &VirtualCollectives::broadcast);
    add("broadcast_device/naive", devices, &VirtualCollectives::broadcast_naively);
    add("broadcast_host/berth", devices, &VirtualCollectives::broadcast_from_host);
    add("broadcast_host/naive", devices, &VirtualCollectives::broadcast_from_host_naively);
    add("scatter_host/berth", devices, &VirtualCollectives::scatter);
    add("scatter_host/naive", devices, &VirtualCollectives::scatter_naively);
    add("gather_host/berth", devices, &VirtualCollectives::gather);
    add("gather_host/naive", devices, &VirtualCollectives::gather_naively);
  }
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "collectives", berth::bench::add_measurements);
}
