// SPDX-License-Identifier: Apache-2.0
// What a stand-in for a kernel computes, if it is given a function.
#include <cstring>
#include <numeric>
#include <string>

#include "berth/bytes.hpp"

#include "sim/graph_fixture.hpp"

namespace kernel_function_test {

using namespace berth;
using namespace berth::test;
using Ranges = std::span<const std::span<std::byte>>;

namespace {

/// Adds the bytes of the first range to those of the second.
void add(Ranges ranges) {
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
    CHECK(fixture.sim.launch(stream, 1000, {{from, 16, false}, {to, 8, true}}, [](Ranges ranges) {
      for (std::size_t at = 0; at != 8; ++at)
        ranges[1][at] = std::byte(unsigned(ranges[0][at]) + unsigned(ranges[1][at]));
      std::memset(ranges[0].data(), 9, 16);  // not declared as written: lost
    }));
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
  CHECK(sim.launch(stream, 1000, {}, [&](Ranges ranges) {
    CHECK(ranges.empty());
    ++calls;
  }));
  CHECK(calls == 0);
  CHECK(sim.run_next(stream));
  CHECK(calls == 1);
}

TEST_CASE_FIXTURE(EagerFixture, "a range of several physical blocks is one range to the function") {
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
  CHECK(sim.launch(nullptr, 1000, {{range + kBlock - 100, 200, true}}, [](Ranges ranges) {
    for (std::size_t at = 0; at != 200; ++at) ranges[0][at] = std::byte(at);
  }));
  std::vector<unsigned char> expected(200);
  std::iota(expected.begin(), expected.end(), static_cast<unsigned char>(0));
  CHECK(sim.peek(range + kBlock - 100, 200) == expected);
}

TEST_CASE_FIXTURE(EagerFixture, "each launch of a graph computes with the bytes of that launch") {
  const CUdeviceptr from = make_memory(4);
  const CUdeviceptr to = make_memory(4);
  OK(CU(cuMemsetD8)(from, 3, 4));
  OK(CU(cuMemsetD8)(to, 0, 4));
  OK(CU(cuCtxSynchronize)());
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    CHECK(sim.launch(stream, 1000, {{from, 4, false}, {to, 4, true}}, add));
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
  CHECK(sim.launch(nullptr, 1000, {{memory, 512, true}, {memory + 512, 1, true}},
                   [&](Ranges) { ++calls; }));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(calls == 0);
}

}  // namespace kernel_function_test
