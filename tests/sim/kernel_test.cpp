// SPDX-License-Identifier: Apache-2.0
// Stand-ins for kernels with the properties of sim::Kernel.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace kernel_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Adds 1 to each of `bytes`.
sim::Kernel increment(CUdeviceptr memory, std::size_t bytes) {
  return {.name = "increment",
          .uses = {{memory, bytes, true}},
          .compute = [](sim::KernelMemory ranges) {
            for (std::byte& byte : ranges[0]) byte = std::byte(std::to_integer<int>(byte) + 1);
          }};
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "a captured kernel computes once a launch") {
  const CUdeviceptr memory = make_memory(8);
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(memory, 0, 8, stream));
  const CUgraphExec exec = make_executable(
      capture([&](CUstream captured) { CHECK(sim.launch(captured, increment(memory, 8))); }));
  CHECK(sim.peek(memory, 8) == bytes_of(8, 0));
  for (unsigned char launches = 1; launches < 4; ++launches) {
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(sim.peek(memory, 8) == bytes_of(8, launches));
  }
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE_FIXTURE(EagerFixture, "a use of host memory is named by its pointer") {
  const CUstream stream = make_stream();
  unsigned char* const pinned = make_pinned(4);
  std::fill_n(pinned, 4, static_cast<unsigned char>(3));
  sim::Kernel kernel = increment(0, 0);
  kernel.uses = {sim::MemoryUse::write(pinned, 2), sim::MemoryUse::read(pinned + 2, 2)};
  CHECK(sim.launch(stream, kernel));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(std::vector<unsigned char>(pinned, pinned + 4) == std::vector<unsigned char>{4, 4, 3, 3});
}

TEST_CASE_FIXTURE(EagerFixture, "a finding names the kernel") {
  const CUdeviceptr memory = make_memory(64);
  CHECK(sim.launch(make_stream(), {.name = "producer", .uses = {{memory, 64, true}}}));
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    CHECK(sim.launch(stream, {.name = "consumer", .uses = {{memory, 64, false}}}));
  }));
  OK(CU(cuGraphLaunch)(exec, make_stream()));
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("race: consumer of cuGraphLaunch (call "));
  CHECK(findings[0].find(", while producer (call ") != std::string::npos);
}

TEST_CASE("the log names the kernel") {
  SimFixture fixture("memory=1GiB,log=on");
  CHECK(fixture.sim.launch(make_stream(), {.name = "softmax", .duration_ns = 9}));
  CHECK(fixture.sim.event_log().find("kernel softmax of 9 ns") != std::string::npos);
}

}  // namespace kernel_test
