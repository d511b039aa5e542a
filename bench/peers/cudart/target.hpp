// SPDX-License-Identifier: Apache-2.0
// Where a copy of the runtime API leads. There is one in each benchmark, for CUB, and one as a
// library for peers that come as libraries.
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
  CUcontext context = nullptr;  ///< the one that a thread gets that sets the device
  int device = 0;
  /// The driver's functions that berth does not use, by name; null where there is none.
  std::function<void*(const char* symbol)> resolve;
};

/// Leads this copy to `target`. While no other thread calls the runtime API.
using LeadCudart = void(const CudartTarget& target);
extern "C" LeadCudart berth_lead_cudart;

}  // namespace berth::bench
