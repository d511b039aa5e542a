// SPDX-License-Identifier: Apache-2.0
// A copy that a thread of berth makes part by part, two at a time: while the backend copies one
// part, the thread prepares another.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

#include "berth/device_backend.hpp"

#include "buffer/buffer_transfer.hpp"
#include "buffer/part.hpp"
#include "buffer/task_thread.hpp"

namespace berth {

class PartTask : public Task {
 public:
  /// Gives a task to its thread, which must have been started. The transfer is over only when the
  /// task is.
  static void post(std::shared_ptr<PartTask> task) noexcept;
  void run() noexcept final;

 protected:
  /// A part of this task. An operation of the backend uses it while it is busy, and then the task
  /// until it sets is_idle.
  struct Slot {
    std::shared_ptr<Part> part;  ///< null: not taken yet
    bool is_idle = true;
    std::size_t begin = 0;  ///< where the part begins, for the task
  };

  PartTask(std::shared_ptr<BufferTransfer> transfer, TaskThread& thread)
      : transfer_(std::move(transfer)), thread_(thread) {}

  /// Called first, on the thread.
  virtual void prepare() {}
  /// Copies all parts, or returns once the transfer has failed. Operations may still be pending
  /// then.
  virtual void copy_all() = 0;
  /// Frees what the task has of the backend.
  virtual void release() noexcept = 0;
  /// Null: none is free.
  /// Errors  std::bad_alloc.
  [[nodiscard]] virtual std::shared_ptr<Part> try_take_part() = 0;

  [[nodiscard]] BufferTransfer& transfer() const { return *transfer_; }
  [[nodiscard]] TaskThread& thread() const { return thread_; }
  [[nodiscard]] std::array<Slot, 2>& slots() { return slots_; }

  /// A slot whose part is free, or null.
  /// Errors  std::bad_alloc.
  [[nodiscard]] Slot* find_free();
  /// Waits until `find()` finds what it returns, which is not null then. Null: the transfer has
  /// failed.
  /// Errors  Cancelled. Those of find().
  template <class Find>
  Slot* wait_for(const Find& find) {
    Slot* found = nullptr;
    thread_.wait_until([&] { return transfer_->is_stopped() || (found = find()) != nullptr; });
    return transfer_->goes_on() ? found : nullptr;
  }
  /// Waits for find_free().
  [[nodiscard]] Slot* wait_for_free() {
    return wait_for([this] { return find_free(); });
  }

  /// Starts an operation of the backend that uses a part, by `call(done)`. Its success means that
  /// `bytes` have arrived.
  template <class Call>
  void use(const std::shared_ptr<Part>& part, std::size_t bytes, const Call& call) {
    const DeviceBackend::Done done = transfer_->add_operation(bytes, part);
    try {
      call(done);
    } catch (...) {
      done(std::current_exception());  // before the operation counts as dropped
      throw;
    }
  }

 private:
  const std::shared_ptr<BufferTransfer> transfer_;
  TaskThread& thread_;
  std::array<Slot, 2> slots_;
};

}  // namespace berth
