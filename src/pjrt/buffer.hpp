// SPDX-License-Identifier: Apache-2.0
// Buffers of a plug-in, and the events of the operations that fill them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "berth/device_backend.hpp"

#include "pjrt/event_watch.hpp"

namespace berth::pjrt {

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

/// Writes a buffer in parts, by a transfer manager.
class PjrtFilling final : public DeviceBackend::Filling {
 public:
  explicit PjrtFilling(EventWatch& watch) : api_(watch.api()), watch_(watch) {}
  ~PjrtFilling() override;

  /// Once. Errors  BackendError: null.
  void own(TransferManager* manager);
  /// Once, before the first write. `ready` is the event of the buffer.
  void expect(Event* ready) { ready_ = ready; }

  void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
             DeviceBackend::Done done) override;

 private:
  const Api& api_;
  EventWatch& watch_;
  TransferManager* manager_ = nullptr;
  Event* ready_ = nullptr;  ///< null again once the last write has begun
};

}  // namespace berth::pjrt
