// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"
#include "berth/transfer.hpp"

#include "base/check.hpp"
#include "device/backend_table.hpp"

namespace berth {

class BufferSet;
class DeviceWork;

/// The state of a DeviceBuffer.
class BufferState {
 public:
  /// Errors  As BufferSet::require_open(), and std::bad_alloc.
  BufferState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner, Device device,
              std::size_t bytes);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  /// Once, before any other thread has this. Null for 0 bytes.
  void fill(std::unique_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept;

  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const Transfer& ready() const { return ready_; }
  /// Errors  InvalidArgument: the Runtime has ended. NotSupported: in a forked child.
  void require_open() const;
  [[nodiscard]] const std::shared_ptr<BufferSet>& set() const { return set_; }

  /// What copies the device part by part.
  /// Errors  std::bad_alloc.
  [[nodiscard]] DeviceWork& work() const;

  [[nodiscard]] const RegisteredBackend& owner() const { return owner_; }

  // Only if require_open() has returned.
  [[nodiscard]] DeviceBackend& backend() const { return *owner_.backend; }
  /// Requires bytes().
  [[nodiscard]] const DeviceBackend::Buffer& buffer() const {
    BERTH_CHECK(memory_ != nullptr && memory_->buffer != nullptr);
    return *memory_->buffer;
  }
  /// The memory beyond the end of this, for a pending transfer. Requires bytes().
  [[nodiscard]] std::shared_ptr<const DeviceBackend::Buffer> share() const {
    BERTH_CHECK(memory_ != nullptr && memory_->buffer != nullptr);
    return {memory_, memory_->buffer.get()};
  }

 private:
  friend class BufferSet;
  struct Memory {
    std::unique_ptr<DeviceBackend::Buffer> buffer;
  };

  const std::shared_ptr<BufferSet> set_;
  const RegisteredBackend& owner_;
  const Device device_;
  const std::size_t bytes_;
  /// Allocated first: nothing may fail once the backend has begun to fill the buffer. Null once the
  /// set is closed.
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  Transfer ready_;
};

}  // namespace berth
