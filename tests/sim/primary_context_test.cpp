// SPDX-License-Identifier: Apache-2.0
// Flags and the reset of primary contexts.
#include "sim/sim_fixture.hpp"

namespace primary_context_test {

using namespace berth;
using namespace berth::test;

namespace {

struct PrimaryState {
  unsigned flags = 99;
  int active = 99;
};

PrimaryState state_of(CUdevice device) {
  PrimaryState state;
  OK(CU(cuDevicePrimaryCtxGetState)(device, &state.flags, &state.active));
  return state;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture,
                  "flags are kept for a primary context, and given to an active one") {
  CHECK(CU(cuDevicePrimaryCtxSetFlags)(1, CU_CTX_SCHED_YIELD) == CUDA_SUCCESS);
  CHECK(state_of(1).flags == CU_CTX_SCHED_YIELD);
  CHECK(state_of(1).active == 0);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  unsigned flags = 0;
  OK(CU(cuCtxGetFlags)(&flags));
  CHECK(flags == CU_CTX_SCHED_YIELD);
  CHECK(CU(cuDevicePrimaryCtxSetFlags)(1, CU_CTX_SCHED_SPIN) == CUDA_SUCCESS);
  OK(CU(cuCtxGetFlags)(&flags));
  CHECK(flags == CU_CTX_SCHED_SPIN);
  CHECK(state_of(0).flags == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "invalid flags and devices are refused") {
  for (const unsigned flags : {0x100U, 3U, 6U, 7U})
    CHECK(CU(cuDevicePrimaryCtxSetFlags)(0, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDevicePrimaryCtxSetFlags)(2, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDevicePrimaryCtxReset)(2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDevicePrimaryCtxReset)(-1) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE_FIXTURE(ManualFixture, "a reset ends work and frees memory, and keeps the retain count") {
  const std::uint64_t before = sim.device_bytes_used(0);
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
  CHECK(CU(cuDevicePrimaryCtxReset)(0) == CUDA_SUCCESS);
  CHECK(sim.operations_run() == 1);
  CHECK(sim.device_bytes_used(0) == before);
  CHECK(sim.live().streams == 0);
  CHECK(state_of(0).active == 0);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  // Retained twice, it needs two releases.
  OK(CU(cuCtxSetCurrent)(retain(0)));
  CHECK(state_of(0).active == 1);
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(EagerFixture, "a primary context may be released after a reset") {
  CHECK(CU(cuDevicePrimaryCtxReset)(0) == CUDA_SUCCESS);
  CHECK(CU(cuDevicePrimaryCtxReset)(0) == CUDA_SUCCESS);
  CHECK(CU(cuDevicePrimaryCtxReset)(1) == CUDA_SUCCESS);  // of nobody's
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_SUCCESS);
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(sim.live().contexts == 0);
}

}  // namespace primary_context_test
