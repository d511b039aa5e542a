// SPDX-License-Identifier: Apache-2.0
// Stand-ins for kernels with the properties of sim::Kernel.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "berth/bytes.hpp"

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

/// Adds the bytes of the first range to those of the second.
void add(sim::KernelMemory ranges) {
  for (std::size_t at = 0; at != ranges[0].size(); ++at)
    ranges[1][at] = std::byte(unsigned(ranges[0][at]) + unsigned(ranges[1][at]));
}

}  // namespace

TEST_CASE("a kernel reads what the stream has written, and writes what it declares, in any mode") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(progress);
    SimFixture fixture(std::string("memory=64MiB,progress=") + progress);
    const CUstream stream = make_stream();
    const CUdeviceptr from = make_memory(16);
    const CUdeviceptr to = make_memory(16);
    OK(CU(cuMemsetD8Async)(from, 2, 16, stream));
    OK(CU(cuMemsetD8Async)(to, 5, 16, stream));
    const auto compute = [](sim::KernelMemory ranges) {
      for (std::size_t at = 0; at != 8; ++at)
        ranges[1][at] = std::byte(unsigned(ranges[0][at]) + unsigned(ranges[1][at]));
      std::memset(ranges[0].data(), 9, 16);  // not declared as written: lost
    };
    CHECK(fixture.sim.launch(
        stream,
        {.duration_ns = 1000, .uses = {{from, 16, false}, {to, 8, true}}, .compute = compute}));
    OK(CU(cuStreamSynchronize)(stream));
    std::vector<unsigned char> expected = bytes_of(8, 7);
    expected.insert(expected.end(), 8, 5);
    CHECK(fixture.sim.peek(to, 16) == expected);
    CHECK(fixture.sim.peek(from, 16) == bytes_of(16, 2));
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a kernel is called when its work runs, not when it is launched") {
  const CUstream stream = make_stream();
  int calls = 0;
  const auto compute = [&](sim::KernelMemory ranges) {
    CHECK(ranges.empty());
    ++calls;
  };
  CHECK(sim.launch(stream, {.duration_ns = 1000, .compute = compute}));
  CHECK(calls == 0);
  CHECK(sim.run_next(stream));
  CHECK(calls == 1);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "a range of several physical blocks appears contiguous to the function") {
  constexpr std::size_t kBlock = 2_MiB;
  CUdeviceptr range = 0;
  OK(CU(cuMemAddressReserve)(&range, 2 * kBlock, 0, 0, 0));
  const CUmemAllocationProp properties = properties_on(0);
  const CUmemAccessDesc access = access_for(0);
  for (const std::size_t offset : {kBlock, std::size_t{0}}) {  // not adjacent in physical memory
    CUmemGenericAllocationHandle block = 0;
    OK(CU(cuMemCreate)(&block, kBlock, &properties, 0));
    OK(CU(cuMemMap)(range + offset, kBlock, 0, block, 0));
  }
  OK(CU(cuMemSetAccess)(range, 2 * kBlock, &access, 1));
  const auto compute = [](sim::KernelMemory ranges) {
    for (std::size_t at = 0; at != 200; ++at) ranges[0][at] = std::byte(at);
  };
  CHECK(sim.launch(
      nullptr,
      {.duration_ns = 1000, .uses = {{range + kBlock - 100, 200, true}}, .compute = compute}));
  std::vector<unsigned char> expected(200);
  std::iota(expected.begin(), expected.end(), static_cast<unsigned char>(0));
  CHECK(sim.peek(range + kBlock - 100, 200) == expected);
}

TEST_CASE_FIXTURE(EagerFixture, "each launch of a graph computes with the current bytes") {
  const CUdeviceptr from = make_memory(4);
  const CUdeviceptr to = make_memory(4);
  OK(CU(cuMemsetD8)(from, 3, 4));
  OK(CU(cuMemsetD8)(to, 0, 4));
  OK(CU(cuCtxSynchronize)());
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    CHECK(sim.launch(
        stream, {.duration_ns = 1000, .uses = {{from, 4, false}, {to, 4, true}}, .compute = add}));
  }));
  CHECK(sim.peek(to, 4) == bytes_of(4, 0));
  const CUstream stream = make_stream();
  for (unsigned char launches = 1; launches <= 3; ++launches) {
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(sim.peek(to, 4) == bytes_of(4, static_cast<unsigned char>(3 * launches)));
  }
}

TEST_CASE_FIXTURE(EagerFixture, "a kernel that cannot reach its memory does not compute") {
  int calls = 0;
  const CUdeviceptr memory = make_memory(512);
  CHECK(sim.launch(nullptr, {.duration_ns = 1000,
                             .uses = {{memory, 512, true}, {memory + 512, 1, true}},
                             .compute = [&](sim::KernelMemory) { ++calls; }}));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(calls == 0);
}

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
  CHECK(findings[0].starts_with("race: consumer (call "));
  CHECK(findings[0].find(", launched by cuGraphLaunch (call ") != std::string::npos);
  CHECK(findings[0].find(", while producer (call ") != std::string::npos);
}

TEST_CASE("the log names the kernel") {
  SimFixture fixture("memory=1GiB,log=on");
  CHECK(fixture.sim.launch(make_stream(), {.name = "softmax", .duration_ns = 9}));
  CHECK(fixture.sim.event_log().find("kernel softmax of 9 ns") != std::string::npos);
}

}  // namespace kernel_test
