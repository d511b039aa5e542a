// SPDX-License-Identifier: Apache-2.0
// The owner of a registration: memory of the user's own, pinned while it exists.
#pragma once

#include <cstddef>
#include <utility>

#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

class PinnedAllocator;

/// Unpins its range on destruction, once the work of the streams that were recorded on it is done.
/// Moves. Empty (null, 0 bytes) where nothing is owned, which is also what registering 0 bytes gives.
/// Must not outlive its allocator, nor the memory it.
/// Blocking  Destruction: PinnedAllocator::unregister(). What fails then is reported.
/// Threads   Like a pointer: one thread at a time; may be destroyed on another thread.
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

  /// Allocator::record_stream for the whole range; no operation on an empty registration.
  void record_stream(StreamRef stream) const;
  /// Allocator::record_use likewise.
  void record_use(StreamRef stream) const;

  /// The start of the range, whose registration the caller ends with PinnedAllocator::unregister().
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// Ends the registration now.
  void reset() noexcept;

 private:
  PinnedAllocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace berth
