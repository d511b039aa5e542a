// SPDX-License-Identifier: Apache-2.0
// Settings of contexts and attributes of streams that affect kernels.
// Source: CUDA Driver API, "Context Management", "Stream Management", "Profiler Control".
#include <cudaProfiler.h>

#include "contract/contract_driver.hpp"

namespace setting_contract_test {

using namespace berth;
using namespace berth::test;

// cuCtxSetLimit: "Requests by the application to update the current limit maintained by the
// context"; "CUDA_ERROR_UNSUPPORTED_LIMIT".
TEST_CASE_FIXTURE(ContractFixture, "a context keeps its limits") {
  const auto get = CONTRACT_FUNCTION(cuCtxGetLimit, 3010);
  const auto set = CONTRACT_FUNCTION(cuCtxSetLimit, 3010);
  REQUIRE((get != nullptr));
  std::size_t before = 0;
  std::size_t value = 0;
  CHECK(get(&before, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(before >= 1024);
  CHECK(set(CU_LIMIT_STACK_SIZE, 4096) == CUDA_SUCCESS);
  CHECK(get(&value, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(value >= 4096);
  CHECK(set(CU_LIMIT_STACK_SIZE, before) == CUDA_SUCCESS);
  CHECK(get(&value, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS);
  CHECK(value == std::size_t{8} << 20);
  CHECK(get(&value, static_cast<CUlimit>(15)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(nullptr, CU_LIMIT_STACK_SIZE) == CUDA_ERROR_INVALID_VALUE);
}

// cuCtxSetCacheConfig.
TEST_CASE_FIXTURE(ContractFixture, "a context keeps its preference for caches") {
  const auto get = CONTRACT_FUNCTION(cuCtxGetCacheConfig, 3020);
  const auto set = CONTRACT_FUNCTION(cuCtxSetCacheConfig, 3020);
  REQUIRE((get != nullptr));
  CUfunc_cache preference{};
  CHECK(set(CU_FUNC_CACHE_PREFER_L1) == CUDA_SUCCESS);
  CHECK(get(&preference) == CUDA_SUCCESS);
  CHECK(set(CU_FUNC_CACHE_PREFER_NONE) == CUDA_SUCCESS);
  CHECK(get(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

// cuProfilerStart: "If profiling is already enabled, then cuProfilerStart() has no effect."
TEST_CASE_FIXTURE(ContractFixture, "profiling starts and stops") {
  const auto start = CONTRACT_FUNCTION(cuProfilerStart, 4000);
  const auto stop = CONTRACT_FUNCTION(cuProfilerStop, 4000);
  REQUIRE((start != nullptr));
  CHECK(start() == CUDA_SUCCESS);
  CHECK(start() == CUDA_SUCCESS);
  CHECK(stop() == CUDA_SUCCESS);
}

// cuStreamSetAttribute, CUlaunchAttributeID: "Valid for streams".
TEST_CASE_FIXTURE(ContractFixture, "a stream keeps its attributes, and hands them to another") {
  const auto get = CONTRACT_FUNCTION(cuStreamGetAttribute, 11000);
  const auto set = CONTRACT_FUNCTION(cuStreamSetAttribute, 11000);
  const auto copy = CONTRACT_FUNCTION(cuStreamCopyAttributes, 11000);
  REQUIRE((get != nullptr));
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  CUstreamAttrValue value{};
  CHECK(get(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) == CUDA_SUCCESS);
  CHECK(value.syncPolicy == CU_SYNC_POLICY_AUTO);
  value.syncPolicy = CU_SYNC_POLICY_SPIN;
  CHECK(set(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) == CUDA_SUCCESS);
  CHECK(copy(other, stream) == CUDA_SUCCESS);
  value = {};
  CHECK(get(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) == CUDA_SUCCESS);
  CHECK(value.syncPolicy == CU_SYNC_POLICY_SPIN);
  value = {};
  value.accessPolicyWindow.hitRatio = 2;
  CHECK(set(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(stream, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr) == CUDA_ERROR_INVALID_VALUE);
  driver.stream_destroy(other);
  CHECK(copy(other, stream) == CUDA_ERROR_INVALID_HANDLE);
  driver.stream_destroy(stream);
}

// cuStreamAttachMemAsync: "length must be zero or the entire allocation's size"; "It is an error to
// [...] CU_MEM_ATTACH_SINGLE" with the NULL stream. cuMemPrefetchBatchAsync: "prefetchLocIdxs[0]
// must be 0".
TEST_CASE_FIXTURE(ContractFixture, "managed memory is attached to streams and fetched in batches") {
  const auto allocate = CONTRACT_FUNCTION(cuMemAllocManaged, 6000);
  const auto attach = CONTRACT_FUNCTION(cuStreamAttachMemAsync, 6000);
  const auto fetch = CONTRACT_FUNCTION(cuMemPrefetchBatchAsync, 13000);
  REQUIRE((attach != nullptr));
  const CUstream stream = make_stream();
  CUdeviceptr memory = 0;
  REQUIRE(allocate(&memory, 8192, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  CHECK(attach(stream, memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  CHECK(attach(stream, memory, 8192, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  CHECK(attach(stream, memory, 100, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(attach(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(attach(stream, memory, 0, 7) == CUDA_ERROR_INVALID_VALUE);
  driver.stream_synchronize(stream);
  if (fetch != nullptr) {
    CUdeviceptr pointers[] = {memory, memory + 4096};
    std::size_t sizes[] = {4096, 4096};
    CUmemLocation locations[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
    std::size_t firsts[] = {0, 1};
    CHECK(fetch(pointers, sizes, 2, locations, firsts, 2, 0, stream) == CUDA_SUCCESS);
    driver.stream_synchronize(stream);
    firsts[0] = 1;
    CHECK(fetch(pointers, sizes, 2, locations, firsts, 1, 0, stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(fetch(pointers, sizes, 0, locations, firsts, 1, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  driver.stream_destroy(stream);
  driver.mem_free(memory);
}

}  // namespace setting_contract_test
