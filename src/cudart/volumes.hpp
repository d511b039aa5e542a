// SPDX-License-Identifier: Apache-2.0
// Volumes in linear memory as stretches of rows: one stretch if the slices are as far apart as
// rows, otherwise one for each slice.
// Source: CUDA Runtime API, cudaMemcpy3D, cudaMemset3D, make_cudaPitchedPtr.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cuda_runtime_api.h>

namespace berth::cudart {

/// One side of a copy, or the target of a fill.
struct Side {
  [[nodiscard]] std::size_t slice_pitch() const { return volume.pitch * volume.ysize; }
  /// The address of slice `z` of the part.
  [[nodiscard]] char* slice(std::size_t z) const {
    return static_cast<char*>(volume.ptr) + (position.z + z) * slice_pitch() +
           position.y * volume.pitch + position.x;
  }
  /// Whether `extent` fits into the volume: rows within the pitch, and slices that do not overlap.
  [[nodiscard]] bool holds(const cudaExtent& extent) const {
    const bool has_rows = position.x <= volume.pitch && extent.width <= volume.pitch - position.x;
    const bool has_slices = extent.depth == 1 && position.z == 0;
    return has_rows && (has_slices ||
                        (position.y <= volume.ysize && extent.height <= volume.ysize - position.y));
  }

  cudaPitchedPtr volume;
  cudaPos position;
};

/// Calls `visit(z, rows)` for each stretch. Stops at the first error.
template <class Visit>
CUresult for_each_stretch(const cudaExtent& extent, bool is_one, Visit&& visit) {
  if (is_one) return visit(std::size_t{0}, extent.height * extent.depth);
  for (std::size_t z = 0; z < extent.depth; ++z) {
    const CUresult result = visit(z, extent.height);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace berth::cudart
