// SPDX-License-Identifier: Apache-2.0
// The simulated driver, with an eye on the calls that give addresses their memory; and other
// threads come in behind the questions whose answers the allocator builds on. One at a time; it
// outlives every Driver that was made of its source().
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "driver/driver_source.hpp"
#include "endurance/claims.hpp"
#include "endurance/page_table.hpp"

namespace berth::endurance {

/// Fails where memory goes while a live block has some of it.
class DriverWatch {
 public:
  /// Of a device with that much memory.
  explicit DriverWatch(std::size_t device_bytes);
  ~DriverWatch() { current_ = nullptr; }
  DriverWatch(const DriverWatch&) = delete;
  DriverWatch& operator=(const DriverWatch&) = delete;

  [[nodiscard]] static DriverSource source();

  [[nodiscard]] const PageTable& pages() const { return pages_; }
  [[nodiscard]] Claims& claims() { return claims_; }
  [[nodiscard]] bool nothing_held() const;

 private:
  using Handle = CUmemGenericAllocationHandle;
  struct Physical {
    std::vector<Frame> frames;
    std::size_t uses = 0;  ///< its handle, and each mapping
  };
  struct Mapping {
    Handle handle;
    std::size_t bytes;
  };

  static CUresult create(Handle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                         unsigned long long flags);
  static CUresult release(Handle handle);
  static CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset, Handle handle,
                      unsigned long long flags);
  static CUresult unmap(CUdeviceptr address, std::size_t bytes);
  static CUresult alloc(CUdeviceptr* address, std::size_t bytes);
  static CUresult free(CUdeviceptr address);
  static CUresult query_stream(CUstream stream);
  static CUresult query_event(CUevent event);

  void note_create(Handle handle, std::size_t bytes);
  void note_map(std::uintptr_t address, Handle handle, std::size_t bytes);
  /// Bytes of the mapping that begins there; 0 where none does.
  std::size_t note_unmap(std::uintptr_t address);
  void let_go(Handle handle);

  static inline DriverWatch* current_ = nullptr;

  PageTable pages_;
  Claims claims_;
  mutable std::mutex mutex_;
  std::vector<Frame> spare_;
  std::map<Handle, Physical> physical_;  ///< of cuMemAlloc too, whose addresses are no handles
  std::map<std::uintptr_t, Mapping> mappings_;
};

}  // namespace berth::endurance
