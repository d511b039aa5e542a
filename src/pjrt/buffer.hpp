// SPDX-License-Identifier: Apache-2.0
// Buffers of a plug-in, and the events of the operations that fill them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "berth/device_backend.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Errors  BackendError: what the plug-in should have given is null.
[[noreturn]] void refuse_nothing(const Api& api, const char* what);

/// Owns a buffer of the plug-in. It is constructed before the plug-in's buffer, so that nothing can
/// fail between the creation of that and its owner.
class PjrtBuffer final : public DeviceBackend::Buffer {
 public:
  PjrtBuffer(const Api& api, int device, std::size_t bytes)
      : api_(api), device_(device), bytes_(bytes) {}
  ~PjrtBuffer() override;

  /// Once. Errors  BackendError: null.
  void own(pjrt::Buffer* native);
  [[nodiscard]] pjrt::Buffer* native() const { return native_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The caller owns the event.
  [[nodiscard]] Event* ready() const;

 private:
  const Api& api_;
  pjrt::Buffer* native_ = nullptr;
  const int device_;
  const std::size_t bytes_;
};

/// Calls `done` once both events are ready, with the first failure. `second` may be null: there is
/// only one then. Both are destroyed.
void when_both_ready(const Api& api, const char* function, Event* first, Event* second,
                     DeviceBackend::Done done) noexcept;

/// Writes a buffer in parts, by a transfer manager.
class PjrtFilling final : public DeviceBackend::Filling {
 public:
  explicit PjrtFilling(const Api& api) : api_(api) {}
  ~PjrtFilling() override;

  /// Once. Errors  BackendError: null.
  void own(TransferManager* manager);
  /// Once, before the first write. `ready` is the event of the buffer.
  void expect(Event* ready) { ready_ = ready; }

  void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
             DeviceBackend::Done done) override;

 private:
  const Api& api_;
  TransferManager* manager_ = nullptr;
  Event* ready_ = nullptr;  ///< null again once the last write has begun
};

}  // namespace berth::pjrt
