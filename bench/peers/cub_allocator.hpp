// SPDX-License-Identifier: Apache-2.0
// CUB's CachingDeviceAllocator, as NVIDIA ships it. Settings: bins are the powers of two from 512 B
// to 16 GiB, and cached memory is not limited. Its defaults (growth 8, nothing above 2 MiB cached,
// 6 MiB in all) would send most sizes here to the driver.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include <cub/util_allocator.cuh>

#include "peers/cudart/binding.hpp"
#include "support/session.hpp"

namespace berth::bench {

class CubAllocator {
 public:
  static constexpr const char* kName = "cub";
  static constexpr bool kCallsDriver = true;
  static constexpr bool kTrims = true;
  static constexpr bool kSplits = false;

  explicit CubAllocator(Session& session) : binding_(session, berth_lead_cudart) {}

  void* allocate(std::size_t bytes, StreamRef stream) {
    void* data = nullptr;
    check(cub_.DeviceAllocate(&data, bytes, stream.native()));
    return data;
  }
  void deallocate(void* data, std::size_t, StreamRef) { check(cub_.DeviceFree(data)); }

  void disable_cache() { check(cub_.SetMaxCachedBytes(0)); }
  void deallocate_uncached(void* data, std::size_t bytes, StreamRef stream) {
    deallocate(data, bytes, stream);
  }

 protected:
  CubAllocator() : binding_(berth_lead_cudart) {}

 private:
  static constexpr unsigned kBinGrowth = 2;
  static constexpr unsigned kBinMin = 9;
  static constexpr unsigned kBinMax = 34;

  static void check(cudaError_t error) {
    if (error != cudaSuccess) [[unlikely]]
      throw std::runtime_error("CUB failed with cudaError_t " + std::to_string(int(error)));
  }

  CudartBinding binding_;  // outlives cub_, whose destructor frees
  cub::CachingDeviceAllocator cub_{kBinGrowth, kBinMin, kBinMax};
};

/// The same with free driver calls: the CPU cost of CUB's own code, which is the minimum on any
/// driver.
class CubWithoutDriver : public CubAllocator {
 public:
  static constexpr const char* kName = "cub_without_driver";
  static constexpr bool kCallsDriver = false;

  explicit CubWithoutDriver(Session&) {}
};

}  // namespace berth::bench
