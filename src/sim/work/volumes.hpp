// SPDX-License-Identifier: Apache-2.0
// Pitched copies between linear memory, from the structures of callers; arrays are not simulated.
// Source: CUDA Driver API, cuMemcpy2D, cuMemcpy3D, cuMemcpy3DBatchAsync.
#pragma once

#include <cuda.h>

#include <vector>

#include "sim/work/copies.hpp"

namespace berth::sim {

/// What a caller asks to copy: nothing if there is an empty dimension.
struct Stretches {
  std::vector<CopyWork> copies;  ///< of rows that are a pitch apart
  Sides sides;
};

/// CUDA_ERROR_INVALID_VALUE if `copy` is null or has an invalid size, position, pitch or type;
/// CUDA_ERROR_NOT_SUPPORTED if it names an array.
CUresult read_copy(const CUDA_MEMCPY2D* copy, Stretches& read);
/// The same for a volume: one stretch if its slices follow one another as rows do on both sides,
/// otherwise one for each slice. CUDA_ERROR_NOT_SUPPORTED if those are more than 65,536.
CUresult read_copy(const CUDA_MEMCPY3D* copy, Stretches& read);
/// The same, without the contexts.
CUresult read_copy(const CUDA_MEMCPY3D_PEER* copy, Stretches& read);
/// The same, but CUDA_ERROR_INVALID_VALUE if a dimension is empty. Ignores the access order, the
/// flags and the location hints.
CUresult read_copy(const CUDA_MEMCPY3D_BATCH_OP& copy, Stretches& read);

}  // namespace berth::sim
