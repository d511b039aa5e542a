// SPDX-License-Identifier: Apache-2.0
// What a launch of a kernel makes a stream or a node of a graph do: nothing, or what a host
// function says, depending on the configuration.
// Source: CUDA Driver API, "Execution Control".
#pragma once

#include <cuda.h>

#include "berth/sim.hpp"

#include "base/mutex.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

/// A launch as the program asks for it.
struct LaunchRequest {
  const CUlaunchConfig& config;  ///< with its stream, which is that of a launch only
  CUfunction function;
  void** arguments;
  void** extra;  ///< arguments that are packed in a buffer
};

/// What the stand-in for a kernel says of a launch.
struct Described {
  CUresult refusal = CUDA_SUCCESS;
  Kernel kernel = {};
};

/// Asks the stand-in, with kernels=host. Without the simulator's lock, because a stand-in in Python
/// acquires the interpreter's lock.
Described describe_launch(const LaunchRequest& request) BERTH_EXCLUDES(mutex);

/// Checks the launch of `function` on the device in `slot`, and sets `work`, to which it moves what
/// the stand-in has described.
/// CUDA_ERROR_NOT_SUPPORTED if such launches are refused; the first says why on standard error.
CUresult make_kernel_work(const State& state, int slot, const LaunchRequest& request,
                          const DeviceFunction& function, Described& described, KernelWork& work);

}  // namespace berth::sim
