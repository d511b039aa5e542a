// SPDX-License-Identifier: Apache-2.0
// The context of a call: the one that the program made current by the driver API; otherwise the
// primary context of the thread's device, which is retained and made current at first use.
// Source: CUDA Runtime API, "Interactions with the CUDA Driver API"; cudaSetDevice.
#pragma once

#include <cuda.h>

#include "cudart/driver.hpp"

namespace berth::cudart {

/// Makes a context current for the calling thread.
CUresult enter_context(const Driver& driver);

/// The primary context of `device`, retained. `device` must exist.
CUresult primary_context(const Driver& driver, int device, CUcontext& context);

/// Makes `device` current for the calling thread, with its primary context.
CUresult set_device(const Driver& driver, int device);

/// The device that the calling thread's next call uses. Creates no context.
CUresult current_device(const Driver& driver, int& device);

/// Destroys the primary context of `device`. The next call that needs it creates a new one.
CUresult reset_device(const Driver& driver, int device);

/// CUDA_SUCCESS if `device` exists.
CUresult check_device(const Driver& driver, int device);

}  // namespace berth::cudart
