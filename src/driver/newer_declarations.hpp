// SPDX-License-Identifier: Apache-2.0
// Declarations of functions that the headers of an older CUDA toolkit lack.
// Source: CUDA Driver API 13.2.
#pragma once

#include <cuda.h>

#include <cstddef>

#if CUDA_VERSION < 13020
extern "C" {
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr destination, CUdeviceptr source,
                                             std::size_t bytes, CUmemcpyAttributes* attributes,
                                             CUstream stream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* copy,
                                               unsigned long long flags, CUstream stream);
}
#endif
