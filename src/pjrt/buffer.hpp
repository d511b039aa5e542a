// SPDX-License-Identifier: Apache-2.0
// Buffers of a plug-in.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/device_backend.hpp"

#include "base/check.hpp"
#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Owns a buffer of the plug-in. It is constructed before the plug-in's buffer, so that nothing can
/// fail between the creation of that and its owner.
class NativeBuffer {
 public:
  NativeBuffer(const Api& api, std::size_t bytes) : api_(api), bytes_(bytes) {}
  ~NativeBuffer();
  NativeBuffer(const NativeBuffer&) = delete;
  NativeBuffer& operator=(const NativeBuffer&) = delete;

  /// Once.
  /// Errors  BackendError: null.
  void own(pjrt::Buffer* buffer);
  [[nodiscard]] pjrt::Buffer* get() const { return buffer_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The caller owns the event.
  [[nodiscard]] Event* ready() const;

 private:
  const Api& api_;
  pjrt::Buffer* buffer_ = nullptr;
  const std::size_t bytes_;
};

/// One of the owners of a NativeBuffer, the last of which frees it. All are given up under one
/// lock, so that each can tell whether it is the last; the buffer is freed without the lock.
/// Threads  Safe from any thread, each object from one at a time.
class NativeShare {
 public:
  NativeShare(const Api& api, std::size_t bytes)
      : buffer_(std::make_shared<NativeBuffer>(api, bytes)) {}
  ~NativeShare() { drop(); }
  NativeShare(const NativeShare&) = default;
  NativeShare(NativeShare&&) noexcept = default;
  NativeShare& operator=(NativeShare other) noexcept {
    buffer_.swap(other.buffer_);
    return *this;
  }

  [[nodiscard]] NativeBuffer* operator->() const {
    BERTH_CHECK(buffer_ != nullptr);  // not dropped
    return buffer_.get();
  }
  /// From here on this owns nothing.
  void drop() noexcept;
  /// The same, unless this is the last one: false then.
  [[nodiscard]] bool drop_unless_last() noexcept;

 private:
  std::shared_ptr<NativeBuffer> buffer_;
};

class PjrtBuffer final : public DeviceBackend::Buffer {
 public:
  PjrtBuffer(const Api& api, int device, std::size_t bytes)
      : native_(api, bytes), device_(device) {}

  /// For an operation that uses the buffer later, when its owner may have destroyed this. It must
  /// not be kept beyond the end of the operation, after which the client may be gone.
  [[nodiscard]] const NativeShare& native() const { return native_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return native_->bytes(); }

 private:
  const NativeShare native_;
  const int device_;
};

}  // namespace berth::pjrt
