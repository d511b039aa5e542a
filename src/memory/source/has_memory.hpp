// SPDX-License-Identifier: Apache-2.0
// The result of a driver call that obtains memory: success, out of memory, or a failure.
#pragma once

#include "driver/driver.hpp"

namespace berth {

inline bool has_memory(const Driver& driver, DriverCall call, CUresult answer) {
  if (answer == CUDA_SUCCESS) return true;
  if (answer == CUDA_ERROR_OUT_OF_MEMORY) return false;
  driver.raise(call, answer);
}

}  // namespace berth
