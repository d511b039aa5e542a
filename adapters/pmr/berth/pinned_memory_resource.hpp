// SPDX-License-Identifier: Apache-2.0
// berth's pinned memory for containers of the standard library: std::pmr::memory_resource.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <string>

#include "berth/device_allocator.hpp"
#include "berth/error.hpp"
#include "berth/pinned_allocator.hpp"

namespace berth {

/// Page-locked host memory for std::pmr containers: `std::pmr::vector<float> batch(&resource);`
///
/// Lifetime   The PinnedAllocator must outlive the resource, and the resource its containers.
/// Threads    Safe from any thread.
/// Alignment  A power of two up to kBlockBytes (512). Every block is aligned to kBlockBytes.
/// Order      As PinnedAllocator: a freed block is reusable at once, unless a stream is recorded
///            for it. Copier records the streams of its copies. Before a container is destroyed or
///            grows, other code that copies from or to it must have recorded its stream, or waited.
/// Errors     allocate(): those of PinnedAllocator::allocate(), of which OutOfMemory is a
///            std::bad_alloc. InvalidArgument: another alignment. Nothing is changed. A pointer
///            that is not a live block: InvalidArgument, which ends the process in a destructor.
/// Fork       In a child made by fork(), allocations throw NotSupported, and frees have no effect.
class PinnedMemoryResource final : public std::pmr::memory_resource {
 public:
  explicit PinnedMemoryResource(PinnedAllocator& memory, PinnedOptions options = {})
      : memory_(memory), options_(options) {}

 private:
  /// 0 bytes give a block too, because a container may compare its address.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const bool is_power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power_of_two || alignment > kBlockBytes) {
      throw InvalidArgument("an alignment of " + std::to_string(alignment) +
                            " B; accepted: a power of two up to " + std::to_string(kBlockBytes));
    }
    return memory_.allocate_raw(bytes == 0 ? 1 : bytes, options_);
  }
  void do_deallocate(void* data, std::size_t, std::size_t) override { memory_.deallocate(data); }
  /// Whether blocks of one can be freed by the other.
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const pinned = dynamic_cast<const PinnedMemoryResource*>(&other);
    return pinned != nullptr && &pinned->memory_ == &memory_;
  }

  PinnedAllocator& memory_;
  const PinnedOptions options_;
};

}  // namespace berth
