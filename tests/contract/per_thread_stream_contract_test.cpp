// SPDX-License-Identifier: Apache-2.0
// What programs compiled with --default-stream per-thread rely on.
// Source: CUDA Driver API, "Stream synchronization behavior", "Driver Entry Point Access".
#include "contract/lookup_contract.hpp"

namespace per_thread_stream_contract_test {

using namespace berth;
using namespace berth::test;

// cuGetProcAddress: "CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: ... the driver symbols that
// match the requested version and have a per-thread default stream".
TEST_CASE_FIXTURE(ContractFixture, "the null stream of a per-thread form is each thread's own") {
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto* launch = find<decltype(cuLaunchHostFunc)>(lookup, "cuLaunchHostFunc", 10000, flags);
  auto* query = find<decltype(cuStreamQuery)>(lookup, "cuStreamQuery", 7000, flags);
  auto* synchronize =
      find<decltype(cuStreamSynchronize)>(lookup, "cuStreamSynchronize", 7000, flags);
  REQUIRE((launch != nullptr && query != nullptr && synchronize != nullptr));
  struct Held {
    std::atomic<bool> open{false};
  } held;
  const CUhostFn hold = [](void* data) {
    while (!static_cast<Held*>(data)->open)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CHECK(launch(nullptr, hold, &held) == CUDA_SUCCESS);
  CHECK(query(nullptr) == CUDA_ERROR_NOT_READY);
  CHECK(query(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  CUresult of_another_thread = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    driver.ctx_push_current(context);
    of_another_thread = query(nullptr);
    driver.ctx_pop_current(nullptr);
  }).join();
  CHECK(of_another_thread == CUDA_SUCCESS);
  held.open = true;
  CHECK(synchronize(nullptr) == CUDA_SUCCESS);
  CHECK(query(nullptr) == CUDA_SUCCESS);
}

// cuGetProcAddress: with the flag, a function that has no per-thread form is found as it is.
TEST_CASE_FIXTURE(ContractFixture,
                  "functions without a stream are found with the per-thread flag") {
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto* count = find<decltype(cuDeviceGetCount)>(lookup, "cuDeviceGetCount", 2000, flags);
  REQUIRE((count != nullptr));
  int devices = 0;
  CHECK(count(&devices) == CUDA_SUCCESS);
  CHECK(devices >= 1);
}

}  // namespace per_thread_stream_contract_test
