// SPDX-License-Identifier: Apache-2.0
// The statistics of PyTorch, from berth's counters.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <map>
#include <mutex>

#include "memory_functions.hpp"
#include "totals.hpp"

namespace berth::torch {

/// Threads  Every function from any thread.
class Statistics {
 public:
  explicit Statistics(MemoryFunctions& memory) : memory_(memory) {}

  c10::CachingDeviceAllocator::DeviceStats of(int device);
  void reset_accumulated(int device);
  void reset_peaks(int device) { memory_.reset_peaks(device); }

 private:
  /// What counts up.
  struct Accumulated {
    Totals allocated;
    Totals freed;
    DeviceCounters counters;
  };
  Accumulated accumulated(int device) const;

  MemoryFunctions& memory_;
  std::mutex mutex_;
  std::map<int, Accumulated> at_reset_;
};

}  // namespace berth::torch
