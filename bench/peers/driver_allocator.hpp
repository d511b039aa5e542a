// SPDX-License-Identifier: Apache-2.0
// cuMemAlloc and cuMemFree for each block: the cost without a cache.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "support/session.hpp"

namespace berth::bench {

class DriverAllocator {
 public:
  static constexpr const char* kName = "driver";
  static constexpr bool kCallsDriver = true;
  static constexpr bool kTrims = true;
  static constexpr bool kSplits = false;

  explicit DriverAllocator(Session& session) : driver_(session.driver()) {}

  void* allocate(std::size_t bytes, StreamRef) {
    CUdeviceptr data = 0;
    driver_.mem_alloc(&data, bytes);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(data));
  }
  void deallocate(void* data, std::size_t, StreamRef) {
    driver_.mem_free(static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data)));
  }

  void disable_cache() {}
  void deallocate_uncached(void* data, std::size_t bytes, StreamRef stream) {
    deallocate(data, bytes, stream);
  }

 private:
  const Driver& driver_;
};

}  // namespace berth::bench
