// SPDX-License-Identifier: Apache-2.0
// Pinned memory of copies. It is freed by threads that open gates, and so must not wait for a
// device.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/pinned_allocator.hpp"

namespace berth {

struct StagingDeleter {
  /// Makes no driver call, unless a stream is recorded on the block: then the driver may be called
  /// for an event.
  void operator()(std::byte* data) const noexcept;

  PinnedAllocator* owner = nullptr;
};

/// Threads  Any thread may free it.
using StagingBlock = std::unique_ptr<std::byte, StagingDeleter>;

/// Errors  As PinnedAllocator::allocate().
[[nodiscard]] StagingBlock allocate_staging(PinnedAllocator& pinned, std::size_t bytes,
                                            const PinnedOptions& options);

}  // namespace berth
