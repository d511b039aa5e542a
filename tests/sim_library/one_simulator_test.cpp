// SPDX-License-Identifier: Apache-2.0
// A process has one simulator, whether a Runtime, a look-alike or <berth/sim.hpp> reaches it. This
// program links the shared libraries, as an embedder does.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"
#include "berth/runtime.hpp"
#include "berth/sim.hpp"

#include "sim_library/open_lookalike.hpp"
#include "support/errors.hpp"

namespace one_simulator_test {

using namespace berth;
using namespace berth::test;

namespace {

RuntimeOptions simulated() {
  RuntimeOptions options;
  options.driver = "sim";
  return options;
}

constexpr std::size_t kBytes = 1 << 20;

}  // namespace

TEST_CASE("a Runtime on sim runs on the Simulator of the program") {
  sim::Simulator simulator("devices=3,memory=1GiB,progress=manual");
  {
    Runtime runtime(simulated());
    CHECK(runtime.driver().name == "sim");
    CHECK(runtime.devices().count() == 3);
    const Device device = Device::cuda(1);
    const StreamLease stream = runtime.streams(device).acquire();
    const Allocation memory = runtime.memory(device).allocate(kBytes, stream);
    CHECK(simulator.device_bytes_used(1) >= kBytes);
    CHECK(simulator.calls("cuInit") == 1);

    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    CHECK(simulator.launch(stream->native(), 1000, {{address, kBytes, true}}));
    CHECK(simulator.pending_operations(stream->native()) == 1);
    CHECK(simulator.run_next(stream->native()));
    CHECK(simulator.run_all() == 0);
  }
  CHECK(simulator.live() == sim::Live{});
  CHECK(simulator.take_findings().empty());
}

TEST_CASE("the Simulator of a program reports the races of a Runtime's streams") {
  sim::Simulator simulator("memory=1GiB");
  Runtime runtime(simulated());
  const Device device = Device::cuda(0);
  const StreamLease one = runtime.streams(device).acquire();
  const StreamLease other = runtime.streams(device).acquire();
  const Allocation memory = runtime.memory(device).allocate(kBytes, one);
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  CHECK(simulator.launch(one->native(), 1000, {{address, kBytes, true}}));
  CHECK(simulator.launch(other->native(), 1000, {{address, kBytes, false}}));
  one->sync();
  other->sync();
  const std::vector<std::string> findings = simulator.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("race: "));
}

TEST_CASE("planned faults of a Simulator reach a Runtime") {
  const sim::Simulator simulator(
      "memory=1GiB,faults=cuMemCreate=out_of_memory;cuMemAlloc=out_of_memory");
  Runtime runtime(simulated());
  const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
  CHECK_THROWS_AS(static_cast<void>(runtime.memory(Device::cuda(0)).allocate(kBytes, stream)),
                  OutOfMemory);
}

TEST_CASE("a malformed configuration is rejected across the libraries") {
  const std::string message =
      message_of<InvalidArgument>([] { const sim::Simulator simulator("colour=red"); });
  CHECK(contains(message, "colour"));
}

TEST_CASE("the text of a Simulator's configuration makes the same Simulator") {
  std::string config;
  {
    const sim::Simulator simulator("devices=2,progress=random,seed=7,mig=1:2");
    config = simulator.config();
  }
  CHECK(contains(config, "seed=7"));
  const sim::Simulator again(config);
  CHECK(again.config() == config);
}

TEST_CASE("a look-alike shows the devices of the program's Simulator") {
  void* cuda = open_lookalike("libcuda.so.1");
  void* nvml = open_lookalike("libnvidia-ml.so.1");
  if (cuda == nullptr || nvml == nullptr) return;
  const sim::Simulator simulator("devices=5,memory=1GiB");
  int count = 0;
  REQUIRE(find<int(unsigned)>(cuda, "cuInit")(0) == 0);
  REQUIRE(find<int(int*)>(cuda, "cuDeviceGetCount")(&count) == 0);
  CHECK(count == 5);
  unsigned nvml_count = 0;
  REQUIRE(find<int()>(nvml, "nvmlInit_v2")() == 0);
  REQUIRE(find<int(unsigned*)>(nvml, "nvmlDeviceGetCount_v2")(&nvml_count) == 0);
  CHECK(nvml_count == 5);
  REQUIRE(find<int()>(nvml, "nvmlShutdown")() == 0);
  CHECK(simulator.calls("cuInit") == 1);
}

}  // namespace one_simulator_test
