// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "berth/device_backend.hpp"

#include "base/check.hpp"
#include "pjrt/event_watch.hpp"

namespace berth::pjrt {

/// Writes a buffer in parts, by a transfer manager.
class PjrtFilling final : public DeviceBackend::Filling {
 public:
  explicit PjrtFilling(EventWatch& watch) : api_(watch.api()), watch_(watch) {}
  ~PjrtFilling() override;

  /// Once.
  /// Errors  BackendError: null.
  void own(TransferManager* manager);
  /// Once, before the first write. `ready` is the event of the buffer.
  void expect(Event* ready) {
    BERTH_CHECK(manager_ != nullptr && ready_ == nullptr);
    ready_ = ready;
  }

  void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
             DeviceBackend::Done done) override;

 private:
  const Api& api_;
  EventWatch& watch_;
  TransferManager* manager_ = nullptr;
  Event* ready_ = nullptr;  ///< null again once the last write has begun
};

}  // namespace berth::pjrt
