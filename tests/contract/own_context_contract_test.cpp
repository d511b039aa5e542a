// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Context Management", "Device Management", "Peer Context Memory Access".
#include <array>
#include <string>
#include <thread>

#include "contract/contract_driver.hpp"

namespace own_context_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct OwnContextFixture : ContractFixture {
  OwnContextFixture() {
    if (create == nullptr) MESSAGE("skipped: needs the context creation of CUDA 12.5");
  }
  [[nodiscard]] CUcontext make(unsigned flags = 0) const {
    CUcontext made = nullptr;
    REQUIRE(create(&made, nullptr, flags, 0) == CUDA_SUCCESS);
    return made;
  }
  [[nodiscard]] CUcontext current() const {
    CUcontext found = nullptr;
    driver.ctx_get_current(&found);
    return found;
  }

  decltype(&::cuCtxCreate) create = CONTRACT_FUNCTION(cuCtxCreate, 12050);
  decltype(&::cuCtxDestroy) destroy = CONTRACT_FUNCTION(cuCtxDestroy, 4000);
  decltype(&::cuCtxGetFlags) get_flags = CONTRACT_FUNCTION(cuCtxGetFlags, 7000);
  decltype(&::cuCtxGetId) get_id = CONTRACT_FUNCTION(cuCtxGetId, 12000);
  decltype(&::cuCtxGetApiVersion) get_version = CONTRACT_FUNCTION(cuCtxGetApiVersion, 3020);
};

}  // namespace

// cuCtxCreate: "If a context is already current to the thread, it is supplanted by the newly
// created context"; cuCtxDestroy: "popped from the current thread's context stack".
TEST_CASE_FIXTURE(OwnContextFixture, "a new context is current until it is destroyed") {
  if (create == nullptr) return;
  const CUcontext own = make();
  CHECK(current() == own);
  CHECK(destroy(own) == CUDA_SUCCESS);
  CHECK(current() == context);
}

// cuCtxDestroy: "If ctx is current to other threads, then ctx will remain current to those threads,
// and attempting to access ctx from those threads will result in the error
// CUDA_ERROR_CONTEXT_IS_DESTROYED."
TEST_CASE_FIXTURE(OwnContextFixture, "a destroyed context stays current to other threads") {
  if (create == nullptr) return;
  const CUcontext own = make();
  std::thread([&] { CHECK(destroy(own) == CUDA_SUCCESS); }).join();
  CHECK(driver.try_ctx_synchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  driver.try_ctx_pop_current(nullptr);
  CHECK(current() == context);
}

// cuCtxDestroy: "Destroys and cleans up all resources associated with the context ... memory
// allocations by cuMemAlloc()".
TEST_CASE_FIXTURE(OwnContextFixture,
                  "destroying a context completes its work and frees its memory") {
  if (create == nullptr) return;
  unsigned char* pinned = make_pinned(64, 1);
  const CUcontext own = make();
  const CUdeviceptr memory = make_memory(64 << 20);
  const CUstream stream = make_stream();
  fill(memory, 5, 64, stream);
  driver.memcpy_async(address_of(pinned), memory, std::size_t{64}, stream);
  CHECK(destroy(own) == CUDA_SUCCESS);
  CHECK(pinned[63] == 5);
  CHECK(driver.try_mem_free(memory) != CUDA_SUCCESS);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// cuCtxGetFlags, cuCtxGetId, cuCtxGetApiVersion. The id: "unique for the life of the program"; "If
// context is supplied as NULL and there is one current, the Id of the current context is returned."
TEST_CASE_FIXTURE(OwnContextFixture, "the flags, id and version of a context can be queried") {
  if (create == nullptr) return;
  const CUcontext own = make(CU_CTX_SCHED_BLOCKING_SYNC);
  unsigned flags = 0;
  unsigned version = 0;
  CHECK(get_flags(&flags) == CUDA_SUCCESS);
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
  CHECK(get_version(own, &version) == CUDA_SUCCESS);
  CHECK(version >= 3020);
  unsigned long long id = 0;
  unsigned long long other = 0;
  CHECK(get_id(own, &id) == CUDA_SUCCESS);
  CHECK(get_id(nullptr, &other) == CUDA_SUCCESS);
  CHECK(id == other);
  CHECK(get_id(context, &other) == CUDA_SUCCESS);
  CHECK(id != other);
  CHECK(destroy(own) == CUDA_SUCCESS);
}

// cuCtxCreate: "Only one of the scheduling flags can be set"; "CUDA_ERROR_INVALID_VALUE if invalid
// parameter was passed".
TEST_CASE_FIXTURE(OwnContextFixture,
                  "a context with a missing device or contradictory flags is refused") {
  if (create == nullptr) return;
  CUcontext made = nullptr;
  CHECK(create(&made, nullptr, 0, -1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(create(&made, nullptr, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(current() == context);
}

// cuDeviceGetByPCIBusId takes what cuDeviceGetPCIBusId gives; "[domain]:[bus]:[device]" too.
TEST_CASE_FIXTURE(OwnContextFixture, "a device is found by its PCI address") {
  const auto find = CONTRACT_FUNCTION(cuDeviceGetByPCIBusId, 4010);
  std::array<char, 32> text{};
  driver.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), 0);
  CUdevice device = -1;
  CHECK(find(&device, text.data()) == CUDA_SUCCESS);
  CHECK(device == 0);
  std::string shorter = text.data();
  shorter.resize(shorter.rfind('.'));
  device = -1;
  CHECK(find(&device, shorter.c_str()) == CUDA_SUCCESS);
  CHECK(device == 0);
  CHECK(find(&device, "no address") == CUDA_ERROR_INVALID_VALUE);
}

// cuDeviceGetP2PAttribute: "CUDA_ERROR_INVALID_DEVICE if srcDevice or dstDevice are not valid or if
// they represent the same device"; cuCtxDisablePeerAccess: "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED if
// direct peer access has not yet been enabled".
TEST_CASE_FIXTURE(OwnContextFixture,
                  "peer attributes are queried, and peer access is enabled and disabled") {
  const auto get = CONTRACT_FUNCTION(cuDeviceGetP2PAttribute, 8000);
  const auto disable = CONTRACT_FUNCTION(cuCtxDisablePeerAccess, 4000);
  int access = -1;
  CHECK(get(&access, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0) == CUDA_ERROR_INVALID_DEVICE);
  if (!has_two_devices()) return;
  CHECK(get(&access, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1) == CUDA_SUCCESS);
  int can = -1;
  driver.device_can_access_peer(&can, 0, 1);
  CHECK(access == can);
  const SecondContext second(driver);
  CHECK(disable(context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  if (can == 0) return;
  driver.ctx_enable_peer_access(context, 0U);
  CHECK(disable(context) == CUDA_SUCCESS);
  CHECK(disable(context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

}  // namespace own_context_contract_test
