// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Primary Context Management", "Context Management".
#include "contract/contract_driver.hpp"

namespace context_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

CUcontext current(Driver& driver) {
  CUcontext context = nullptr;
  driver.ctx_get_current(&context);
  return context;
}

bool is_active(Driver& driver) {
  unsigned flags = 0;
  int active = -1;
  driver.primary_ctx_get_state(0, &flags, &active);
  return active == 1;
}

}  // namespace

// "Primary Context Management": one primary context a device, counted; "Releasing a primary context
// that has not been previously retained will fail with CUDA_ERROR_INVALID_CONTEXT."
TEST_CASE("a device has one primary context, which lives as long as it is retained") {
  Driver& driver = contract_driver();
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  CHECK(driver.try_primary_ctx_retain(&first, 0) == CUDA_SUCCESS);
  CHECK(driver.try_primary_ctx_retain(&second, 0) == CUDA_SUCCESS);
  CHECK(first == second);
  CHECK(driver.try_primary_ctx_release(0) == CUDA_SUCCESS);
  CHECK(is_active(driver));
  CHECK(driver.try_primary_ctx_release(0) == CUDA_SUCCESS);
  CHECK_FALSE(is_active(driver));
  CHECK(driver.try_primary_ctx_release(0) == CUDA_ERROR_INVALID_CONTEXT);
}

// "Primary Context Management", cuDevicePrimaryCtxRetain: "the created context is not pushed onto
// the stack."
TEST_CASE("retaining a primary context does not make it current") {
  Driver& driver = contract_driver();
  CUcontext context = nullptr;
  driver.primary_ctx_retain(&context, 0);
  CHECK(current(driver) == nullptr);
  driver.primary_ctx_release(0);
}

// "Context Management", cuCtxPushCurrent, cuCtxPopCurrent: a stack for each thread.
TEST_CASE_FIXTURE(ContractFixture, "contexts are pushed and popped in order") {
  driver.ctx_push_current(context);
  CUcontext popped = nullptr;
  CHECK(driver.try_ctx_pop_current(&popped) == CUDA_SUCCESS);
  CHECK(popped == context);
  CHECK(current(driver) == context);
}

// "Context Management", cuCtxSetCurrent: "If ctx is NULL then this will be equivalent to popping
// the top of the calling CPU thread's CUDA context stack (or a no-op if [it] is empty)."
TEST_CASE_FIXTURE(ContractFixture,
                  "setting a null context pops the stack, and does nothing if it is empty") {
  driver.ctx_push_current(context);
  CHECK(driver.try_ctx_set_current(nullptr) == CUDA_SUCCESS);
  CHECK(current(driver) == context);
  CHECK(driver.try_ctx_set_current(nullptr) == CUDA_SUCCESS);
  CHECK(current(driver) == nullptr);
  CHECK(driver.try_ctx_set_current(nullptr) == CUDA_SUCCESS);
  CHECK(driver.try_ctx_set_current(context) == CUDA_SUCCESS);
  CHECK(current(driver) == context);
}

// "Context Management", cuCtxGetCurrent: the context of the calling CPU thread.
TEST_CASE_FIXTURE(ContractFixture, "each thread has its own current context") {
  CUcontext elsewhere = context;
  std::thread([&] { elsewhere = current(driver); }).join();
  CHECK(elsewhere == nullptr);
}

// "Context Management", cuCtxGetDevice.
TEST_CASE_FIXTURE(ContractFixture, "the device of the current context can be queried") {
  CUdevice device = -1;
  CHECK(driver.try_ctx_get_device(&device) == CUDA_SUCCESS);
  CHECK(device == 0);
}

// Each function's list of return values: CUDA_ERROR_INVALID_CONTEXT where no context is current.
TEST_CASE("calls that need a context are refused if none is current") {
  Driver& driver = contract_driver();
  CUdevice device = -1;
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  std::size_t bytes = 0;
  REQUIRE(current(driver) == nullptr);
  CHECK(driver.try_ctx_get_device(&device) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_ctx_synchronize() == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_ctx_pop_current(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_mem_get_info(&bytes, &bytes) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_mem_alloc(&pointer, std::size_t{512}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_stream_create_with_priority(&stream, 0U, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.try_event_create(&event, 0U) == CUDA_ERROR_INVALID_CONTEXT);
}

// "Peer Context Memory Access", cuCtxEnablePeerAccess: "CUDA_ERROR_INVALID_CONTEXT ... if the
// current context is peerContext", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED".
TEST_CASE_FIXTURE(ContractFixture, "peer access is enabled once, and never to the own context") {
  CHECK(driver.try_ctx_enable_peer_access(context, 0U) == CUDA_ERROR_INVALID_CONTEXT);
  if (!has_two_devices()) return;
  int can = 0;
  driver.device_can_access_peer(&can, 0, 1);
  CUcontext peer = nullptr;
  driver.primary_ctx_retain(&peer, 1);
  const CUresult first = driver.try_ctx_enable_peer_access(peer, 0U);
  if (can == 1) {
    CHECK(first == CUDA_SUCCESS);
    CHECK(driver.try_ctx_enable_peer_access(peer, 0U) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  } else {
    CHECK(first == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
  driver.primary_ctx_release(1);
}

}  // namespace context_contract_test
