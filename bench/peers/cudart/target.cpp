// SPDX-License-Identifier: Apache-2.0
#include "peers/cudart/target.hpp"

#include "peers/cudart/forward.hpp"

namespace berth::bench {
namespace cudart {

CudartTarget target;
decltype(&cuStreamGetId) stream_get_id = nullptr;
thread_local cudaError_t last_error = cudaSuccess;

// The codes that are passed on unchanged.
static_assert(int(cudaErrorMemoryAllocation) == int(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(int(cudaErrorInvalidValue) == int(CUDA_ERROR_INVALID_VALUE));
static_assert(int(cudaErrorInitializationError) == int(CUDA_ERROR_NOT_INITIALIZED));
static_assert(int(cudaErrorNotReady) == int(CUDA_ERROR_NOT_READY));
static_assert(int(cudaErrorNotSupported) == int(CUDA_ERROR_NOT_SUPPORTED));

}  // namespace cudart

void berth_lead_cudart(const CudartTarget& target) {
  cudart::target = target;
  cudart::stream_get_id = nullptr;
  if (target.resolve) {
    cudart::stream_get_id =
        reinterpret_cast<decltype(&cuStreamGetId)>(target.resolve("cuStreamGetId"));
  }
}

}  // namespace berth::bench
