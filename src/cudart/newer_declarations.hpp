// SPDX-License-Identifier: Apache-2.0
// Declarations of functions that the headers of an older CUDA toolkit lack.
// Source: CUDA Runtime API 13.2.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13020
extern "C" {
cudaError_t CUDARTAPI cudaMemcpyWithAttributesAsync(void* destination, const void* source,
                                                    std::size_t bytes,
                                                    cudaMemcpyAttributes* attributes,
                                                    cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp* copy,
                                                      unsigned long long flags,
                                                      cudaStream_t stream);
}
#endif
