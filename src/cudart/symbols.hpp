// SPDX-License-Identifier: Apache-2.0
// Parts of device variables.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

#include "cudart/driver.hpp"

namespace berth::cudart {

struct Part {
  const void* symbol;
  std::size_t offset;
  std::size_t bytes;
};

/// Finds the address of `part` in the current context. cudaErrorInvalidSymbol if there is no such
/// variable, cudaErrorInvalidValue if the part ends behind it.
cudaError_t find(const Driver& driver, const Part& part, char*& start);

// Whether a copy of that kind can have a variable as its destination, or as its source.
inline bool is_to_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}
inline bool is_from_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

}  // namespace berth::cudart
