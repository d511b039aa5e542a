// SPDX-License-Identifier: Apache-2.0
// Which context a call works in: one that the program made current by the driver API, as it is;
// otherwise the primary context of the thread's device, which is retained on its first use and made
// current.
// Source: CUDA Runtime API, "Interactions with the CUDA Driver API"; cudaSetDevice.
#pragma once

#include <cuda.h>

#include "cudart/driver.hpp"

namespace berth::cudart {

/// Gives the calling thread a current context.
CUresult enter_context(const Driver& driver);

/// The primary context of `device`, retained. `device` is an ordinal that exists.
CUresult primary_context(const Driver& driver, int device, CUcontext& context);

/// Makes `device` the calling thread's, and its primary context current.
CUresult set_device(const Driver& driver, int device);

/// The device that the calling thread's next call uses. Creates no context.
CUresult current_device(const Driver& driver, int& device);

/// Destroys the primary context of `device`. The next call that needs it makes another.
CUresult reset_device(const Driver& driver, int device);

/// CUDA_SUCCESS if `device` exists.
CUresult check_device(const Driver& driver, int device);

}  // namespace berth::cudart
