// SPDX-License-Identifier: Apache-2.0
// berth's device allocator with the interface that workloads use, and with a cache of its own that
// starts empty. Its peers have the same members, with other allocators. The caller of a free passes
// the size and the stream, because some peers do not store them.
#pragma once

#include <cstddef>

#include "berth/device_allocator.hpp"

#include "support/session.hpp"

namespace berth::bench {

class BerthAllocator {
 public:
  static constexpr const char* kName = "berth";
  /// Whether it makes driver calls.
  static constexpr bool kCallsDriver = true;
  /// Whether blocks are pieces of larger ones from the driver, or come from the driver one by one.
  static constexpr bool kSplits = true;
  /// Whether deallocate_uncached() is available.
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

  /// From now on blocks are freed only by deallocate_uncached().
  void disable_cache() {}
  /// Frees a block and returns its memory to the driver.
  void deallocate_uncached(void* data, std::size_t, StreamRef) {
    memory_.deallocate(data);
    memory_.trim();
  }

 private:
  DeviceAllocator memory_;
};

}  // namespace berth::bench
