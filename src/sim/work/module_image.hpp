// SPDX-License-Identifier: Apache-2.0
// What modules and libraries are made of.
#pragma once

#include <cuda.h>

#include <optional>
#include <vector>

#include "sim/work/module_variables.hpp"
#include "sim/work/ptx.hpp"

namespace berth::sim {

struct Image {
  CUresult refusal = CUDA_SUCCESS;
  /// Known only of PTX.
  std::optional<std::vector<PtxKernel>> kernels = std::nullopt;
  /// Of PTX, and of a cubin or a fat binary that can be read.
  std::optional<std::vector<ModuleVariable>> variables = std::nullopt;
};

Image read_image(const void* image);
/// CUDA_ERROR_FILE_NOT_FOUND: it cannot be read.
Image read_image_file(const char* path);

}  // namespace berth::sim
