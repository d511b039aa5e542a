// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Version Management", "Driver Entry Point Access", "Profiler Control".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/version.hpp"

namespace berth::cudart {
namespace {

cudaError_t find_entry_point(const char* symbol, void** function, int version,
                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return call(Needs::driver, [&](const Driver&) {
    if (symbol == nullptr || function == nullptr || *symbol == '\0')
      return CUDA_ERROR_INVALID_VALUE;
    if (flags == cudaEnableDefault && this_thread().null_stream_is_per_thread)
      flags = cudaEnablePerThreadDefaultStream;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result =
        loaded_driver()->get_proc_address(symbol, function, version, flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    const bool is_told = status != nullptr || found == CU_GET_PROC_ADDRESS_SUCCESS;
    if (result == CUDA_SUCCESS && !is_told) return CUDA_ERROR_NOT_FOUND;
    return result;
  });
}

}  // namespace

// Without a driver the version is 0, without an error.
cudaError_t berth_cudart_cudaDriverGetVersion(int* version) {
  if (version == nullptr) return this_thread().note(cudaErrorInvalidValue);
  const LoadedDriver* driver = loaded_driver();
  *version = driver == nullptr ? 0 : driver->version;
  return cudaSuccess;
}

cudaError_t berth_cudart_cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return this_thread().note(cudaErrorInvalidValue);
  *version = berth_cudart_version();
  return cudaSuccess;
}

cudaError_t berth_cudart_cudaGetDriverEntryPoint(const char* symbol, void** function,
                                                 unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* status) {
  return find_entry_point(symbol, function, berth_cudart_version(), flags, status);
}

cudaError_t berth_cudart_cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                          unsigned version,
                                                          unsigned long long flags,
                                                          cudaDriverEntryPointQueryResult* status) {
  return find_entry_point(symbol, function, static_cast<int>(version), flags, status);
}

// No profiler is supported, so there is no collection to start or stop.
cudaError_t berth_cudart_cudaProfilerStart() {
  return call(Needs::context, [](const Driver&) { return cudaSuccess; });
}

cudaError_t berth_cudart_cudaProfilerStop() {
  return call(Needs::context, [](const Driver&) { return cudaSuccess; });
}

}  // namespace berth::cudart
