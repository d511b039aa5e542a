// SPDX-License-Identifier: Apache-2.0
// berth's device allocator in the form that workloads use, with a cache of its own that starts
// empty. The other forms are its peers: the same members, other allocators behind them. Who frees
// says what was allocated, because some peers keep no account of it themselves.
#pragma once

#include <cstddef>

#include "berth/device_allocator.hpp"

#include "support/session.hpp"

namespace berth::bench {

class BerthAllocator {
 public:
  static constexpr const char* kName = "berth";
  /// Whether any driver call is made.
  static constexpr bool kCallsDriver = true;
  /// Whether blocks are pieces of larger ones that come from the driver, or come from it one by
  /// one.
  static constexpr bool kSplits = true;
  /// Whether deallocate_uncached() can be had.
  static constexpr bool kTrims = true;

  explicit BerthAllocator(Session& session, const DeviceAllocatorOptions& options = {})
      : memory_(session.context(), session.runtime().events(session.device()), options) {}

  void* allocate(std::size_t bytes, StreamRef stream) {
    return memory_.allocate_raw(bytes, stream);
  }
  void deallocate(void* data, std::size_t, StreamRef) { memory_.deallocate(data); }

  void record_stream(void* data, StreamRef stream) { memory_.record_stream(data, stream); }
  void record_use(void* data, StreamRef stream) { memory_.record_use(data, stream); }

  [[nodiscard]] MemoryCounters counters() const { return memory_.counters(); }

  /// From here on blocks are freed by deallocate_uncached() only.
  void disable_cache() {}
  /// Frees a block and gives its memory back to the driver.
  void deallocate_uncached(void* data, std::size_t, StreamRef) {
    memory_.deallocate(data);
    memory_.trim();
  }

 private:
  DeviceAllocator memory_;
};

}  // namespace berth::bench
