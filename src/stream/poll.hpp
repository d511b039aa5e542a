// SPDX-License-Identifier: Apache-2.0
// The result of cuStreamQuery and cuEventQuery: done, not done, or a failure.
#pragma once

#include "driver/driver.hpp"

namespace berth {

inline bool is_complete(const Driver& driver, DriverCall call, CUresult answer) {
  if (answer == CUDA_SUCCESS) return true;
  if (answer == CUDA_ERROR_NOT_READY) return false;
  driver.raise(call, answer);
}

}  // namespace berth
