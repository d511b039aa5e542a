// SPDX-License-Identifier: Apache-2.0
// The target of a copy of the runtime API. Each benchmark has one copy, for CUB, and there is one
// as a library, for peers that are libraries.
#pragma once

#include <cuda.h>

#include <functional>

#include "driver/driver.hpp"

namespace berth::bench {

struct CudartTarget {
  enum class Kind {
    none,     ///< each call fails with cudaErrorInitializationError
    driver,   ///< to `driver`
    nothing,  ///< each call succeeds at once, and memory is a number not given out before
  };
  Kind kind = Kind::none;
  const Driver* driver = nullptr;
  CUcontext context = nullptr;  ///< the context of a thread that sets the device
  int device = 0;
  /// The driver's functions that berth does not use, by name; null if there is none.
  std::function<void*(const char* symbol)> resolve;
};

/// Directs this copy to `target`. No other thread may call the runtime API meanwhile.
using LeadCudart = void(const CudartTarget& target);
extern "C" LeadCudart berth_lead_cudart;

}  // namespace berth::bench
