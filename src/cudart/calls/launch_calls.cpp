// SPDX-License-Identifier: Apache-2.0
// Kernel launches, forwarded to the simulated driver by kernel name, which refuses, skips or
// replaces them as BERTH_SIM configures.
// Source: CUDA Runtime API, "Execution Control".
#include <atomic>

#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/modules.hpp"
#include "cudart/notices.hpp"

namespace berth::cudart {
namespace {

struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

bool is_empty(const dim3& extent) {
  return extent.x == 0 || extent.y == 0 || extent.z == 0;
}

bool is_configuration(const Launch& launch) {
  constexpr std::uint64_t threads_max = 1024;
  if (is_empty(launch.grid) || is_empty(launch.block)) return false;
  return std::uint64_t{launch.block.x} * launch.block.y <= threads_max &&
         std::uint64_t{launch.block.x} * launch.block.y * launch.block.z <= threads_max;
}

cudaError_t refuse(const Kernel& kernel) {
  static std::atomic<bool> printed = false;
  notice_once(printed,
              "kernel {} was not launched, because device code is not run: the launch fails with "
              "cudaErrorNotSupported",
              kernel.name);
  return cudaErrorNotSupported;
}

cudaError_t launch_kernel(const void* function, const Launch& launch, void** arguments) {
  return call(Needs::context, [&](const Driver& driver) {
    const Kernel* kernel = modules().find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (!is_configuration(launch)) return cudaErrorInvalidConfiguration;
    const auto by_name = loaded_driver()->kernel_by_name;
    if (by_name == nullptr) return refuse(*kernel);
    const CUresult result = driver.cuLaunchKernel(
        by_name(kernel->name.c_str()), launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x,
        launch.block.y, launch.block.z, static_cast<unsigned>(launch.shared_bytes), launch.stream,
        arguments, nullptr);
    return to_error(result);
  });
}

}  // namespace

cudaError_t berth_cudart_cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                          void** arguments, std::size_t shared_bytes,
                                          cudaStream_t stream) {
  return launch_kernel(function, {grid, block, shared_bytes, stream}, arguments);
}

// Attributes only affect how a kernel runs.
cudaError_t berth_cudart_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                             void** arguments) {
  if (config == nullptr) return this_thread().note(cudaErrorInvalidConfiguration);
  return launch_kernel(
      function, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
      arguments);
}

cudaError_t berth_cudart_cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                     void** arguments, std::size_t shared_bytes,
                                                     cudaStream_t stream) {
  return launch_kernel(function, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t berth_cudart___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                            void** arguments, std::size_t shared_bytes,
                                            cudaStream_t stream) {
  return launch_kernel(kernel, {grid, block, shared_bytes, stream}, arguments);
}

}  // namespace berth::cudart
