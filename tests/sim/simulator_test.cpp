// SPDX-License-Identifier: Apache-2.0
// The controls that tests and benchmarks use.
#include <string>
#include <sys/mman.h>

#include "berth/error.hpp"

#include "sim/sim_fixture.hpp"

namespace simulator_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(EagerFixture, "live objects are counted and listed by kind") {
  CHECK(sim.live() == sim::Live{.contexts = 1});
  CUdeviceptr pointer = 0;
  make_memory(512);
  OK(CU(cuMemAllocManaged)(&pointer, 64, CU_MEM_ATTACH_GLOBAL));
  make_pinned(64);
  std::vector<char> own(4096);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  make_stream();
  make_event();
  CUmemGenericAllocationHandle block = 0;
  const CUmemAllocationProp properties = properties_on(0);
  OK(CU(cuMemAddressReserve)(&pointer, 2 << 20, 0, 0, 0));
  OK(CU(cuMemCreate)(&block, 2 << 20, &properties, 0));
  OK(CU(cuMemMap)(pointer, 2 << 20, 0, block, 0));
  CHECK(sim.live() == sim::Live{1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  const std::vector<std::string> lines = sim.live_list();
  CHECK(lines.size() == 10);
  for (const std::string& line : lines) CHECK(line.find("0x") != std::string::npos);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "calls are counted by name, including refused ones, but not control functions") {
  CHECK(sim.calls("cuMemAlloc") == 0);
  make_memory(512);
  CHECK(CU(cuMemAlloc)(nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  static_cast<void>(sim.live());
  CHECK(sim.calls("cuMemAlloc") == 2);
  CHECK(sim.calls("cuMemFree") == 0);
  CHECK_THROWS_AS(static_cast<void>(sim.calls("cuNothing")), InvalidArgument);
}

TEST_CASE_FIXTURE(ManualFixture, "run_all runs everything, on every device") {
  for (int i = 0; i < 3; ++i) OK(CU(cuMemsetD8Async)(make_memory(16), 1, 16, make_stream()));
  OK(CU(cuCtxSetCurrent)(retain(1)));
  OK(CU(cuMemsetD8Async)(make_memory(16), 1, 16, nullptr));
  CHECK(sim.run_all() == 4);
  CHECK(sim.run_all() == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "peek() returns a whole range or nothing") {
  const CUdeviceptr memory = make_memory(16);
  CHECK(sim.peek(memory, 16).size() == 16);
  CHECK(sim.peek(memory, 17).empty());
  CHECK(sim.peek(0, 1).empty());
}

TEST_CASE("destroying a simulator frees all remaining objects") {
  for (int round = 0; round < 3; ++round) {
    unsigned char* pinned = nullptr;
    {
      const ManualFixture fixture;
      const CUdeviceptr memory = make_memory(64 << 20);
      pinned = make_pinned(1 << 20);
      OK(CU(cuMemsetD8Async)(memory, 1, 64 << 20, make_stream()));
      make_event();
      CHECK(msync(pinned, 1 << 20, MS_ASYNC) == 0);
    }
    CHECK(msync(pinned, 1 << 20, MS_ASYNC) != 0);  // no longer mapped
    const ManualFixture next;
    CHECK(next.sim.live() == sim::Live{.contexts = 1});
    CHECK(next.sim.device_bytes_used(0) == 0);
  }
}

}  // namespace simulator_test
