// SPDX-License-Identifier: Apache-2.0
// Forwarding from the functions of the runtime API to the driver.
#pragma once

#include <cuda.h>

#include <cuda_runtime_api.h>

#include "peers/cudart/target.hpp"

namespace berth::bench::cudart {

// Written while no other thread calls the runtime API.
extern CudartTarget target;
extern decltype(&cuStreamGetId) stream_get_id;
extern thread_local cudaError_t last_error;

/// "Not ready" is not an error, as its documentation says: CUB, which checks the last error after
/// each call, would otherwise fail if an event is pending.
inline cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

/// `call` on the target driver; success if driver calls are left out.
template <class Call>
cudaError_t forward(Call call) {
  if (target.kind == CudartTarget::Kind::driver)
    return note(static_cast<cudaError_t>(call(*target.driver)));
  return target.kind == CudartTarget::Kind::nothing ? cudaSuccess
                                                    : note(cudaErrorInitializationError);
}

}  // namespace berth::bench::cudart
