// SPDX-License-Identifier: Apache-2.0
// A copy in parts between host memory of the program and buffers of one device. The backend uses
// the memory itself, so a part needs no memory of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "berth/device_backend.hpp"

#include "buffer/buffer_set.hpp"
#include "buffer/part_task.hpp"

namespace berth {

class HostTask : public PartTask {
 public:
  /// `first` is one of the buffers.
  HostTask(std::shared_ptr<BufferTransfer> transfer, const BufferState& first, TaskThread& thread,
           std::size_t part_bytes)
      : PartTask(std::move(transfer), thread),
        set_(first.set()),
        backend_(first.backend()),
        part_bytes_(part_bytes) {}

 protected:
  [[nodiscard]] DeviceBackend& backend() const { return backend_; }
  [[nodiscard]] std::size_t part_bytes() const { return part_bytes_; }
  /// Keeps mappings of the memory.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<const void> hold_mapped(std::span<const std::byte> memory) const {
    return set_->mappings().hold(backend_, memory);
  }
  /// use() for an operation on `memory`.
  template <class Call>
  void use_memory(const Slot& slot, std::span<const std::byte> memory, const Call& call) {
    use(slot.part, memory.size(), [&](DeviceBackend::Done done) {
      call(set_->mappings().use(backend_, memory, std::move(done)));
    });
  }

 private:
  [[nodiscard]] std::shared_ptr<Part> try_take_part() final {
    return std::make_shared<Part>(thread());
  }

  const std::shared_ptr<BufferSet> set_;
  DeviceBackend& backend_;
  const std::size_t part_bytes_;
};

}  // namespace berth
