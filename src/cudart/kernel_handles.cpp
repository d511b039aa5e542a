// SPDX-License-Identifier: Apache-2.0
#include "cudart/kernel_handles.hpp"

#include <atomic>
#include <cstdint>

#include "cudart/modules.hpp"
#include "cudart/notices.hpp"

namespace berth::cudart {
namespace {

CUresult kernel_of_library(const Driver& driver, const void* kernel, CUfunction& handle) {
  return driver.cuKernelGetFunction(&handle, static_cast<CUkernel>(const_cast<void*>(kernel)));
}

}  // namespace

cudaError_t find_handle(const Driver& driver, const void* kernel, CUfunction& handle) {
  const Kernel* const registered = modules().find_kernel(kernel);
  const auto by_name = loaded_driver()->kernel_by_name;
  if (by_name == nullptr && registered != nullptr) {
    static std::atomic<bool> printed = false;
    notice_once(printed,
                "the driver has no kernel {}, because device code is not run: the call fails with "
                "cudaErrorNotSupported",
                registered->name);
    return cudaErrorNotSupported;
  }
  if (registered != nullptr) {
    handle = by_name(registered->name.c_str());
    return cudaSuccess;
  }
  const bool is_of_library = kernel != nullptr && by_name != nullptr &&
                             kernel_of_library(driver, kernel, handle) == CUDA_SUCCESS;
  return is_of_library ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t find_kernel(const Driver& driver, CUfunction handle, void*& kernel) {
  const char* name = nullptr;
  const CUresult named = driver.cuFuncGetName(&name, handle);
  if (named == CUDA_ERROR_NOT_SUPPORTED) return cudaErrorNotSupported;
  if (named != CUDA_SUCCESS) return cudaErrorInvalidDeviceFunction;
  // A function of a module may have the name of a registered kernel, but not its handle.
  const auto by_name = loaded_driver()->kernel_by_name;
  const void* const host_function = modules().find_host_function(name);
  if (host_function != nullptr && by_name != nullptr && by_name(name) == handle) {
    kernel = const_cast<void*>(host_function);
    return cudaSuccess;
  }
  CUfunction of_library = nullptr;
  if (kernel_of_library(driver, handle, of_library) != CUDA_SUCCESS)
    return cudaErrorInvalidDeviceFunction;
  kernel = handle;
  return cudaSuccess;
}

bool is_configuration(const Driver& driver, const dim3& grid, const dim3& block) {
  int device = 0;
  if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return true;  // the driver says what is wrong
  const auto is_within = [&](std::uint64_t extent, CUdevice_attribute limit) {
    int most = 0;
    return extent != 0 && driver.cuDeviceGetAttribute(&most, limit, device) == CUDA_SUCCESS &&
           extent <= static_cast<std::uint64_t>(most);
  };
  return is_within(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
         is_within(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
         is_within(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) &&
         is_within(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
         is_within(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
         is_within(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) &&
         is_within(std::uint64_t{block.x} * block.y * block.z,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

CUlaunchConfig to_driver(const cudaLaunchConfig_t& config) {
  return {.gridDimX = config.gridDim.x,
          .gridDimY = config.gridDim.y,
          .gridDimZ = config.gridDim.z,
          .blockDimX = config.blockDim.x,
          .blockDimY = config.blockDim.y,
          .blockDimZ = config.blockDim.z,
          .sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes),
          .hStream = config.stream,
          .attrs = same<CUlaunchAttribute*>(config.attrs),
          .numAttrs = config.numAttrs};
}

}  // namespace berth::cudart
