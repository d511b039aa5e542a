// SPDX-License-Identifier: Apache-2.0
#include "peers/cudart.hpp"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "base/check.hpp"

namespace berth::bench {
namespace {

enum class Target { none, driver, nothing };

// Written while no other thread calls the runtime API.
Target target = Target::none;
const Driver* driver = nullptr;
CUcontext context = nullptr;
int device = 0;

std::atomic<std::uintptr_t> next_address;

thread_local cudaError_t last_error = cudaSuccess;

// The codes and flags that pass through unchanged.
static_assert(int(cudaErrorMemoryAllocation) == int(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(int(cudaErrorInvalidValue) == int(CUDA_ERROR_INVALID_VALUE));
static_assert(int(cudaErrorInitializationError) == int(CUDA_ERROR_NOT_INITIALIZED));
static_assert(int(cudaErrorNotReady) == int(CUDA_ERROR_NOT_READY));
static_assert(int(cudaEventDisableTiming) == int(CU_EVENT_DISABLE_TIMING));

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// `call` on the driver that is bound; success where driver calls are left out.
template <class Call>
cudaError_t forward(Call call) {
  if (target == Target::driver) return note(static_cast<cudaError_t>(call(*driver)));
  return target == Target::nothing ? cudaSuccess : note(cudaErrorInitializationError);
}

}  // namespace

CudartBinding::CudartBinding(const Driver& to) {
  BERTH_CHECK(target == Target::none);
  to.ctx_get_current(&context);
  to.ctx_get_device(&device);
  driver = &to;
  target = Target::driver;
}

CudartBinding::CudartBinding() {
  BERTH_CHECK(target == Target::none);
  device = 0;
  next_address = std::uintptr_t{1} << 40;
  target = Target::nothing;
}

CudartBinding::~CudartBinding() {
  target = Target::none;
}

extern "C" {

cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal != device) return note(cudaErrorInvalidDevice);
  return forward([](const Driver& to) { return to.try_ctx_set_current(context); });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (target == Target::nothing) {
    *data = reinterpret_cast<void*>(next_address.fetch_add(bytes));
    return cudaSuccess;
  }
  CUdeviceptr address = 0;
  const cudaError_t error =
      forward([&](const Driver& to) { return to.try_mem_alloc(&address, bytes); });
  *data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  return error;
}

cudaError_t cudaFree(void* data) {
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
  return forward([=](const Driver& to) { return to.try_mem_free(address); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = nullptr;
  return forward([=](const Driver& to) { return to.try_event_create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return forward([=](const Driver& to) { return to.try_event_destroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return forward([=](const Driver& to) { return to.try_event_record(event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return forward([=](const Driver& to) { return to.try_event_query(event); });
}

}  // extern "C"

}  // namespace berth::bench
