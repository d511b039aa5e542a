// SPDX-License-Identifier: Apache-2.0
// Buffers of a plug-in, and the events of the operations that fill them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "berth/device_backend.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Owns a buffer of the plug-in.
class PjrtBuffer final : public DeviceBackend::Buffer {
 public:
  /// Errors  BackendError: null.
  PjrtBuffer(const Api& api, pjrt::Buffer* native, int device, std::size_t bytes);
  ~PjrtBuffer() override;

  [[nodiscard]] pjrt::Buffer* native() const { return native_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The caller owns the event.
  [[nodiscard]] Event* ready() const;

 private:
  const Api& api_;
  pjrt::Buffer* const native_;
  const int device_;
  const std::size_t bytes_;
};

/// Calls `done` once both events are ready, with the first failure. `second` may be null: there is
/// only one then. Both are destroyed.
void when_both_ready(const Api& api, const char* function, Event* first, Event* second,
                     DeviceBackend::Done done);

/// Writes a buffer in parts, by a transfer manager.
class PjrtFilling final : public DeviceBackend::Filling {
 public:
  /// `ready` is the event of the buffer.
  PjrtFilling(const Api& api, TransferManager* manager, Event* ready);
  ~PjrtFilling() override;

  void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
             DeviceBackend::Done done) override;

 private:
  const Api& api_;
  TransferManager* const manager_;
  Event* ready_;  ///< null once the last write has begun
};

}  // namespace berth::pjrt
