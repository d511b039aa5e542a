// SPDX-License-Identifier: Apache-2.0
// The parameters of graph nodes between the runtime and the driver.
// Source: CUDA Runtime API, "Graph Management".
#pragma once

#include <cuda.h>

#include <cuda_runtime_api.h>

#include "cudart/driver.hpp"

namespace berth::cudart {

/// cudaErrorInvalidMemcpyDirection for an unknown kind, cudaErrorNotSupported for arrays,
/// cudaErrorInvalidValue for null.
cudaError_t to_driver(const cudaMemcpy3DParms* from, CUDA_MEMCPY3D& to);
/// One stretch of bytes.
cudaError_t to_driver(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D& to);
cudaMemcpy3DParms to_runtime(const CUDA_MEMCPY3D& from);

cudaError_t to_driver(const cudaMemsetParams* from, CUDA_MEMSET_NODE_PARAMS& to);
cudaMemsetParams to_runtime(const CUDA_MEMSET_NODE_PARAMS& from);

/// cudaErrorInvalidValue for null, cudaErrorInvalidDeviceFunction for an unknown kernel.
cudaError_t to_driver(const Driver& driver, const cudaKernelNodeParams* from,
                      CUDA_KERNEL_NODE_PARAMS& to);
cudaError_t to_runtime(const Driver& driver, const CUDA_KERNEL_NODE_PARAMS& from,
                       cudaKernelNodeParams& to);

/// Generic parameters. Kinds of nodes that the driver refuses are passed on with their kind alone.
cudaError_t to_driver(const Driver& driver, const cudaGraphNodeParams* from, CUgraphNodeParams& to);

}  // namespace berth::cudart
