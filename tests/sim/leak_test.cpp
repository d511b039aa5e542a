// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_fixture.hpp"

namespace leak_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(EagerFixture, "a context that ends with nothing in it leaks nothing") {
  const CUdeviceptr memory = make_memory(64);
  void* const pinned = make_pinned(64);
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  OK(CU(cuMemsetD8Async)(memory, 1, 64, CU_STREAM_PER_THREAD));
  OK(CU(cuEventDestroy)(event));
  OK(CU(cuStreamDestroy)(stream));
  OK(CU(cuMemFreeHost)(pinned));
  OK(CU(cuMemFree)(memory));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(EagerFixture, "a leak names the call, the device and the remaining objects") {
  OK(CU(cuCtxPushCurrent)(retain(1)));
  make_memory(64);
  make_memory(100);
  make_event();
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] ==
        "leak: cuDevicePrimaryCtxRelease (call 8) ends a context of device 1 that still has "
        "2 allocations of 164 B, 1 event");
}

TEST_CASE_FIXTURE(EagerFixture, "a context that others still hold leaks nothing yet") {
  OK(CU(cuCtxPushCurrent)(retain(0)));
  make_memory(64);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(sim.take_findings().empty());
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(found_leak(sim, "1 allocation of 64 B"));
}

TEST_CASE("leaks are not reported if checks are off") {
  SimFixture fixture("memory=64MiB,checks=off");
  make_memory(64);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(fixture.sim.take_findings().empty());
}

}  // namespace leak_test
