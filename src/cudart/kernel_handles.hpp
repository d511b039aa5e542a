// SPDX-License-Identifier: Apache-2.0
// The driver's handles of kernels. Only the simulated driver has some for the kernels that nvcc's
// host code has registered, because their device code is not read.
#pragma once

#include <cuda_runtime_api.h>

#include "cudart/call.hpp"

namespace berth::cudart {

/// `kernel` is a registered host function, a handle of one, or a kernel of a library.
/// cudaErrorInvalidDeviceFunction for any other. If the driver has no handles:
/// cudaErrorNotSupported, and a line on standard error the first time.
cudaError_t find_handle(const Driver& driver, const void* kernel, CUfunction& handle);

/// The opposite of find_handle(). cudaErrorInvalidDeviceFunction for a kernel that is neither
/// registered nor of a library.
cudaError_t find_kernel(const Driver& driver, CUfunction handle, void*& kernel);

/// Implements a call about a kernel: `body` gets the driver and the handle.
template <class Body>
cudaError_t call_about(const void* kernel, Body&& body) {
  return call(Needs::context, [&](const Driver& driver) {
    CUfunction handle = nullptr;
    const cudaError_t found = find_handle(driver, kernel, handle);
    return found == cudaSuccess ? to_error(body(driver, handle)) : found;
  });
}

/// False if a dimension is 0 or more than the device allows.
bool is_configuration(const Driver& driver, const dim3& grid, const dim3& block);

CUlaunchConfig to_driver(const cudaLaunchConfig_t& config);

}  // namespace berth::cudart
