// SPDX-License-Identifier: Apache-2.0
// The owner of a registration of host memory.
#pragma once

#include <cstddef>
#include <utility>

#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

class PinnedAllocator;

/// Owns a registration: the user's own memory, which is pinned while this object exists. The
/// destructor unpins the range when the work of the streams that were recorded on it is done.
/// Movable. Empty (null, 0 bytes) if it owns nothing, which is also the result of registering 0
/// bytes. It must not outlive its allocator, and the memory must outlive it.
/// Blocking  Destruction: as PinnedAllocator::unregister(). Failures are reported.
/// Threads   One thread at a time; may be destroyed on another thread.
class BERTH_API HostRegistration {
 public:
  HostRegistration() noexcept = default;
  HostRegistration(PinnedAllocator& allocator, void* data, std::size_t bytes) noexcept
      : allocator_(&allocator), data_(bytes > 0 ? data : nullptr), bytes_(bytes) {}
  ~HostRegistration() { reset(); }
  HostRegistration(HostRegistration&& other) noexcept
      : allocator_(other.allocator_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  HostRegistration& operator=(HostRegistration&& other) noexcept;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Allocator::record_stream() for the whole range; no effect if empty.
  void record_stream(StreamRef stream) const;
  /// Allocator::record_use() for the whole range; no effect if empty.
  void record_use(StreamRef stream) const;

  /// Gives up ownership and returns the start of the range, whose registration the caller must end
  /// with PinnedAllocator::unregister().
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// Ends the registration now, as the destructor does.
  void reset() noexcept;

 private:
  PinnedAllocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace berth
