// SPDX-License-Identifier: Apache-2.0
// berth's pinned memory for containers of the standard library: std::pmr::memory_resource.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
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
/// Alignment  Any power of two. Every block is aligned to kBlockAlignment (512). A larger alignment
///            takes up to as many bytes more; std::pmr::unsynchronized_pool_resource asks for such.
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
    if (!std::has_single_bit(alignment))
      throw InvalidArgument("an alignment of " + std::to_string(alignment) +
                            " B; accepted: a power of two");
    const std::size_t wanted = bytes == 0 ? 1 : bytes;
    if (alignment <= kBlockAlignment) return memory_.allocate_raw(wanted, options_);
    const std::size_t room = alignment - kBlockAlignment;
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    void* const block = memory_.allocate_raw(wanted > most - room ? most : wanted + room, options_);
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    return reinterpret_cast<void*>((address + alignment - 1) & ~(alignment - 1));
  }
  void do_deallocate(void* data, std::size_t, std::size_t alignment) override {
    void* const block = alignment <= kBlockAlignment ? nullptr : memory_.find_block(data);
    memory_.deallocate(block == nullptr ? data : block);
  }
  /// Whether blocks of one can be freed by the other.
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const pinned = dynamic_cast<const PinnedMemoryResource*>(&other);
    return pinned != nullptr && &pinned->memory_ == &memory_;
  }

  PinnedAllocator& memory_;
  const PinnedOptions options_;
};

}  // namespace berth
