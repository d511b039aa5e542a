// SPDX-License-Identifier: Apache-2.0
// Host memory of a size from the command line.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "berth/pinned_allocator.hpp"

namespace berth::tool {

class HostBuffer {
 public:
  /// Pageable memory, all 0.
  /// Errors  OutOfMemory.
  explicit HostBuffer(std::size_t bytes);
  /// Pinned memory, of any content.
  /// Errors  those of PinnedAllocator::allocate().
  HostBuffer(PinnedAllocator& pinned, std::size_t bytes) : pinned_(pinned.allocate(bytes)) {}

  [[nodiscard]] bool is_pinned() const { return static_cast<bool>(pinned_); }
  [[nodiscard]] std::span<std::byte> bytes() {
    if (is_pinned()) return {static_cast<std::byte*>(pinned_.data()), pinned_.bytes()};
    return {pageable_.get(), pageable_bytes_};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  std::unique_ptr<std::byte[], Free> pageable_;
  std::size_t pageable_bytes_ = 0;
  Allocation pinned_;
};

}  // namespace berth::tool
