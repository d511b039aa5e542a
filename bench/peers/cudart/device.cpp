// SPDX-License-Identifier: Apache-2.0
// The current device is cached rather than queried, as in the runtime API itself.
#include <utility>

#include "peers/cudart/forward.hpp"

namespace berth::bench::cudart {

extern "C" {

cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = target.device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal != target.device) return note(cudaErrorInvalidDevice);
  return forward([](const Driver& to) { return to.try_ctx_set_current(target.context); });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return forward([=](const Driver& to) { return to.try_device_get_count(count); });
}

/// The attributes that an allocator queries; others are 0.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  *properties = {};
  return forward([=](const Driver& to) {
    const std::pair<CUdevice_attribute, int*> attributes[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &properties->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &properties->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &properties->multiProcessorCount},
    };
    CUresult result = to.try_device_total_mem(&properties->totalGlobalMem, ordinal);
    for (const auto& [attribute, value] : attributes) {
      if (result == CUDA_SUCCESS) result = to.try_device_get_attribute(value, attribute, ordinal);
    }
    return result;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return forward([](const Driver& to) { return to.try_ctx_synchronize(); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return forward([=](const Driver& to) { return to.try_driver_get_version(version); });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

// The driver's names of the codes that are passed on.
const char* cudaGetErrorName(cudaError_t error) {
  const char* name = nullptr;
  forward([&](const Driver& to) { return to.try_get_error_name(CUresult(error), &name); });
  return name != nullptr ? name : "cudaError";
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  forward([&](const Driver& to) { return to.try_get_error_string(CUresult(error), &text); });
  return text != nullptr ? text : "an error of the runtime API";
}

}  // extern "C"

}  // namespace berth::bench::cudart
