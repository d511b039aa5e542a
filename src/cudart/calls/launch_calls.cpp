// SPDX-License-Identifier: Apache-2.0
// Kernel launches, forwarded to the simulated driver, which refuses, skips or replaces them as
// BERTH_SIM configures.
// Source: CUDA Runtime API, "Execution Control".
#include "cudart/functions.hpp"
#include "cudart/kernel_handles.hpp"

namespace berth::cudart {
namespace {

struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

cudaError_t launch_kernel(const void* function, const Launch& launch, void** arguments) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    if (!is_configuration(driver, launch.grid, launch.block)) return cudaErrorInvalidConfiguration;
    return to_error(driver.cuLaunchKernel(handle, launch.grid.x, launch.grid.y, launch.grid.z,
                                          launch.block.x, launch.block.y, launch.block.z,
                                          static_cast<unsigned>(launch.shared_bytes), launch.stream,
                                          arguments, nullptr));
  });
}

}  // namespace

cudaError_t berth_cudart_cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                          void** arguments, std::size_t shared_bytes,
                                          cudaStream_t stream) {
  return launch_kernel(function, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t berth_cudart_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                             void** arguments) {
  if (config == nullptr) return this_thread().note(cudaErrorInvalidConfiguration);
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    if (!is_configuration(driver, config->gridDim, config->blockDim))
      return cudaErrorInvalidConfiguration;
    const CUlaunchConfig converted = to_driver(*config);
    return to_error(driver.cuLaunchKernelEx(&converted, handle, arguments, nullptr));
  });
}

cudaError_t berth_cudart_cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                     void** arguments, std::size_t shared_bytes,
                                                     cudaStream_t stream) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    if (!is_configuration(driver, grid, block)) return cudaErrorInvalidConfiguration;
    return to_error(
        driver.cuLaunchCooperativeKernel(handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         static_cast<unsigned>(shared_bytes), stream, arguments));
  });
}

cudaError_t berth_cudart___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                            void** arguments, std::size_t shared_bytes,
                                            cudaStream_t stream) {
  return launch_kernel(kernel, {grid, block, shared_bytes, stream}, arguments);
}

}  // namespace berth::cudart
