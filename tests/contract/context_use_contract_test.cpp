// SPDX-License-Identifier: Apache-2.0
// Contexts of threads, and the effects of destroying a context.
// Source: CUDA Driver API, "Primary Context Management", "Context Management", "Peer Context Memory
// Access".
#include "contract/contract_driver.hpp"

namespace context_use_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

CUcontext current(const Driver& driver) {
  CUcontext context = nullptr;
  driver.ctx_get_current(&context);
  return context;
}

int active(const Driver& driver, CUdevice device = 0) {
  unsigned flags = 0;
  int active = -1;
  driver.primary_ctx_get_state(device, &flags, &active);
  return active;
}

}  // namespace

// cuCtxSetCurrent: "this will replace the top of that stack with ctx."
TEST_CASE_FIXTURE(ContractFixture, "setting a context does not push onto the stack") {
  driver.ctx_push_current(context);
  CHECK(driver.try_ctx_set_current(context) == CUDA_SUCCESS);
  CHECK(driver.try_ctx_set_current(context) == CUDA_SUCCESS);
  driver.ctx_pop_current(nullptr);
  CHECK(current(driver) == context);
  driver.ctx_pop_current(nullptr);
  CHECK(current(driver) == nullptr);
  driver.ctx_push_current(context);
}

// cuCtxPopCurrent: "If a context was current to the CPU thread before ... this function makes that
// context current to the CPU thread again."
TEST_CASE_FIXTURE(ContractFixture, "popping a context makes the previous one current again") {
  if (!has_two_devices()) return;
  {
    const SecondContext second(driver);
    CHECK(current(driver) == second.context);
    CUdevice device = -1;
    CHECK(driver.try_ctx_get_device(&device) == CUDA_SUCCESS);
    CHECK(device == 1);
  }
  CHECK(current(driver) == context);
}

// "Context Management": a stack for each thread, so that the context of one may be that of another.
TEST_CASE_FIXTURE(ContractFixture, "a context is current in several threads at once") {
  const CUdeviceptr memory = make_memory(64);
  const CUstream stream = make_stream();
  CUcontext seen = nullptr;
  std::thread([&] {
    driver.ctx_push_current(context);
    seen = current(driver);
    fill(memory, 3, 64, stream);
    driver.ctx_pop_current(nullptr);
  }).join();
  CHECK(seen == context);
  CHECK(current(driver) == context);
  CHECK(read(memory, 64, stream) == bytes_of(64, 3));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// "Primary Context Management": one primary context a device, which the threads of a process share.
TEST_CASE("a primary context outlives the thread that retained it") {
  Driver& driver = contract_driver();
  CUcontext elsewhere = nullptr;
  std::thread([&] { driver.primary_ctx_retain(&elsewhere, 0); }).join();
  CHECK(active(driver) == 1);
  CUcontext here = nullptr;
  driver.primary_ctx_retain(&here, 0);
  CHECK(here == elsewhere);
  CHECK(driver.try_primary_ctx_release(0) == CUDA_SUCCESS);
  CHECK(driver.try_primary_ctx_release(0) == CUDA_SUCCESS);
  CHECK(active(driver) == 0);
}

// cuDevicePrimaryCtxGetState: "whether it is active", no more.
TEST_CASE("querying the state of a primary context does not activate it") {
  Driver& driver = contract_driver();
  CHECK(active(driver) == 0);
  CHECK(active(driver) == 0);
  CHECK(driver.try_primary_ctx_release(0) == CUDA_ERROR_INVALID_CONTEXT);
}

// "Primary Context Management": each device has its own.
TEST_CASE("two devices have different primary contexts") {
  Driver& driver = contract_driver();
  int count = 0;
  driver.device_get_count(&count);
  if (count < 2) {
    MESSAGE("skipped: needs two devices");
    return;
  }
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  driver.primary_ctx_retain(&first, 0);
  CHECK(active(driver, 1) == 0);
  driver.primary_ctx_retain(&second, 1);
  CHECK(first != second);
  driver.primary_ctx_release(0);
  CHECK(active(driver, 0) == 0);
  CHECK(active(driver, 1) == 1);
  driver.primary_ctx_release(1);
}

// Each function's list of return values: CUDA_ERROR_INVALID_DEVICE.
TEST_CASE("a device that does not exist has no primary context") {
  Driver& driver = contract_driver();
  int count = 0;
  driver.device_get_count(&count);
  for (const CUdevice device : {-1, count}) {
    CUcontext context = nullptr;
    unsigned flags = 0;
    int is_active = 0;
    CHECK(driver.try_primary_ctx_retain(&context, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(driver.try_primary_ctx_release(device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(driver.try_primary_ctx_get_state(device, &flags, &is_active) ==
          CUDA_ERROR_INVALID_DEVICE);
  }
}

// cuDevicePrimaryCtxRelease: "unlike cuCtxDestroy() this method does not pop the context from stack
// in any circumstances."
TEST_CASE("a primary context that is released stays on the stack") {
  Driver& driver = contract_driver();
  CUcontext context = nullptr;
  driver.primary_ctx_retain(&context, 0);
  driver.ctx_push_current(context);
  CHECK(driver.try_primary_ctx_release(0) == CUDA_SUCCESS);
  CHECK(current(driver) == context);
  driver.try_ctx_pop_current(nullptr);
  CHECK(current(driver) == nullptr);
}

// CUDA_ERROR_CONTEXT_IS_DESTROYED: "the context current to the calling thread has been destroyed
// using cuCtxDestroy, or is a primary context which has not yet been initialized."
TEST_CASE("a destroyed primary context cannot be used") {
  Driver& driver = contract_driver();
  CUcontext context = nullptr;
  driver.primary_ctx_retain(&context, 0);
  driver.ctx_push_current(context);
  driver.primary_ctx_release(0);
  CUdeviceptr pointer = 0;
  CHECK(driver.try_mem_alloc(&pointer, std::size_t{4096}) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  driver.try_ctx_pop_current(nullptr);
}

// cuDevicePrimaryCtxRelease: "The context is automatically reset once the last reference to it is
// released", and with it goes what was allocated.
TEST_CASE("memory is freed with its primary context") {
  Driver& driver = contract_driver();
  CUdeviceptr memory = 0;
  {
    const ContractFixture fixture;
    memory = fixture.make_memory(4096);
  }
  const ContractFixture fixture;
  unsigned type = 0;
  CHECK(driver.try_pointer_get_attribute(static_cast<void*>(&type),
                                         CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free(memory) == CUDA_ERROR_INVALID_VALUE);
}

// cuCtxEnablePeerAccess: CUDA_ERROR_INVALID_CONTEXT if "peerContext is not a valid context".
TEST_CASE_FIXTURE(ContractFixture, "peer access is granted to a context") {
  CHECK(driver.try_ctx_enable_peer_access(nullptr, 0U) == CUDA_ERROR_INVALID_CONTEXT);
}

// cuCtxEnablePeerAccess: "Returns CUDA_ERROR_INVALID_VALUE if Flags is not 0."
TEST_CASE_FIXTURE(ContractFixture, "peer access takes no flags") {
  if (!has_two_devices()) return;
  const SecondContext second(driver);
  driver.ctx_push_current(context);
  CHECK(driver.try_ctx_enable_peer_access(second.context, 1U) == CUDA_ERROR_INVALID_VALUE);
  driver.ctx_pop_current(nullptr);
}

// cuCtxEnablePeerAccess: "access granted by this call is unidirectional ... a separate symmetric
// call ... is required."
TEST_CASE_FIXTURE(ContractFixture, "peer access is enabled for each direction") {
  if (!has_two_devices()) return;
  int can = 0;
  int can_back = 0;
  driver.device_can_access_peer(&can, 0, 1);
  driver.device_can_access_peer(&can_back, 1, 0);
  if (can != 1 || can_back != 1) {
    MESSAGE("skipped: needs two devices that access each other");
    return;
  }
  const SecondContext second(driver);
  CHECK(driver.try_ctx_enable_peer_access(context, 0U) == CUDA_SUCCESS);
  driver.ctx_push_current(context);
  CHECK(driver.try_ctx_enable_peer_access(second.context, 0U) == CUDA_SUCCESS);
  driver.ctx_pop_current(nullptr);
}

}  // namespace context_use_contract_test
