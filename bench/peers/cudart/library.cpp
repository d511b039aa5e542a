// SPDX-License-Identifier: Apache-2.0
// Functions with which PyTorch's allocator is linked, other than those that allocation calls. Most
// are never called here, and fail with a message if they are. Without the runtime API's header,
// whose declarations differ.
#include <cuda.h>

#include "peers/cudart/target.hpp"

namespace berth::bench::cudart {

extern CudartTarget target;

namespace {

constexpr int kSuccess = 0;
constexpr int kSymbolNotFound = 500;
constexpr int kNotSupported = 801;
static_assert(kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kSymbolNotFound == CUDA_ERROR_NOT_FOUND);

}  // namespace

extern "C" {

int cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                     unsigned long long, int* found) {
  enum { kFound = 0, kNotFound = 1 };
  *function = target.resolve ? target.resolve(symbol) : nullptr;
  if (found != nullptr) *found = *function != nullptr ? kFound : kNotFound;
  return *function != nullptr ? kSuccess : kSymbolNotFound;
}

#define BERTH_UNSUPPORTED(name) \
  int name() {                  \
    return kNotSupported;       \
  }
BERTH_UNSUPPORTED(cudaDeviceCanAccessPeer)
BERTH_UNSUPPORTED(cudaDeviceEnablePeerAccess)
BERTH_UNSUPPORTED(cudaDeviceGetDefaultMemPool)
BERTH_UNSUPPORTED(cudaEventElapsedTime)
BERTH_UNSUPPORTED(cudaFreeAsync)
BERTH_UNSUPPORTED(cudaGraphNodeGetDependencies)
BERTH_UNSUPPORTED(cudaIpcCloseMemHandle)
BERTH_UNSUPPORTED(cudaIpcGetMemHandle)
BERTH_UNSUPPORTED(cudaIpcOpenMemHandle)
BERTH_UNSUPPORTED(cudaMallocAsync)
BERTH_UNSUPPORTED(cudaMemPoolGetAttribute)
BERTH_UNSUPPORTED(cudaMemPoolSetAccess)
BERTH_UNSUPPORTED(cudaMemPoolSetAttribute)
BERTH_UNSUPPORTED(cudaMemPoolTrimTo)
BERTH_UNSUPPORTED(cudaMemcpy)
BERTH_UNSUPPORTED(cudaMemcpyAsync)
BERTH_UNSUPPORTED(cudaMemcpyPeerAsync)
BERTH_UNSUPPORTED(cudaStreamGetCaptureInfo)

}  // extern "C"

}  // namespace berth::bench::cudart
