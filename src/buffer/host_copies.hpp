// SPDX-License-Identifier: Apache-2.0
// The copies of one transfer between host memory and buffers: each by one call of its backend, or
// part by part if the options demand it and the backend can.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/transfer.hpp"

#include "buffer/buffer_set.hpp"
#include "buffer/buffer_transfer.hpp"
#include "buffer/host_filling.hpp"
#include "buffer/host_reading.hpp"

namespace berth {

/// The size of the parts of a copy of `bytes`; 0: it is made whole.
/// Errors  InvalidArgument.
std::size_t part_bytes_of(const TransferOptions& options, std::size_t bytes);

/// What a backend gave for a buffer that has bytes.
/// Errors  BackendError: null.
std::unique_ptr<DeviceBackend::Buffer> require_given(std::unique_ptr<DeviceBackend::Buffer> buffer,
                                                     const BufferState& state);

/// The copies in parts of one transfer, by one task for each device.
template <class Task>
class HostCopies {
 public:
  HostCopies(const std::shared_ptr<BufferTransfer>& transfer, std::size_t part_bytes)
      : transfer_(transfer), part_bytes_(part_bytes) {}

  /// Starts the tasks. Once, when nothing can fail any more.
  void post() noexcept {
    for (auto& [device, task] : tasks_) PartTask::post(std::move(task));
  }

 protected:
  [[nodiscard]] BufferTransfer& transfer() const { return *transfer_; }
  [[nodiscard]] bool wants_parts() const { return part_bytes_ > 0; }
  /// The task of the device of `state`.
  /// Errors  Exhausted: the system starts no more threads. std::bad_alloc.
  Task& task_of(const BufferState& state) {
    for (const auto& [device, task] : tasks_) {
      if (device == state.device()) return *task;
    }
    TaskThread& thread = state.work().memory();
    thread.start();
    auto made = std::make_shared<Task>(transfer_, state, thread, part_bytes_);
    return *tasks_.emplace_back(state.device(), std::move(made)).second;
  }

 private:
  const std::shared_ptr<BufferTransfer>& transfer_;
  const std::size_t part_bytes_;
  std::vector<std::pair<Device, std::shared_ptr<Task>>> tasks_;
};

class HostFills : public HostCopies<HostFilling> {
 public:
  using HostCopies::HostCopies;

  /// Creates the buffer of `state`, which has bytes, and starts to fill it.
  std::unique_ptr<DeviceBackend::Buffer> add(const BufferState& state, const void* source);
};

class HostReads : public HostCopies<HostReading> {
 public:
  using HostCopies::HostCopies;

  /// Starts to read a range, which has bytes, of a buffer.
  void add(const BufferState& source, std::size_t offset, std::span<std::byte> target);
};

}  // namespace berth
