// SPDX-License-Identifier: Apache-2.0
// The shared state of the buffers and transfers of one Runtime. It outlives the Runtime as long as
// one of them exists. The Runtime closes it: from then on no buffer has memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"
#include "berth/device_buffer.hpp"
#include "berth/report.hpp"

#include "base/check.hpp"
#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/reporter.hpp"
#include "buffer/device_work.hpp"
#include "buffer/task_thread.hpp"
#include "device/backend_table.hpp"

namespace berth {

class BufferSet;
class HostMappingState;

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

  /// What copies the device part by part. Errors  std::bad_alloc.
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

/// Threads  Safe from any thread.
class BufferSet {
 public:
  /// Throws InvalidArgument for memory of a device.
  using RequireHostMemory =
      std::function<void(const void* data, std::size_t bytes, const char* name)>;

  BufferSet(RequireHostMemory require_host_memory, ReportSink sink)
      : require_host_memory_(std::move(require_host_memory)), reporter_(std::move(sink)) {}

  /// Errors  InvalidArgument: it is closed. NotSupported: in a forked child.
  void require_open() const BERTH_EXCLUDES(mutex_);
  /// Only if require_open() has returned. `name` is for the error.
  void require_host_memory(const void* data, std::size_t bytes, const char* name) const {
    require_host_memory_(data, bytes, name);
  }
  [[nodiscard]] bool is_here() const { return origin_.is_here(); }

  /// `has_notice`: the transfer will post itself. Errors  As require_open(), and std::system_error.
  void begin_transfer(bool has_notice) BERTH_EXCLUDES(mutex_);
  void end_transfer() noexcept BERTH_EXCLUDES(mutex_);
  /// For callbacks of the program.
  void post(std::shared_ptr<Task> notice) noexcept { notices_.post(std::move(notice)); }
  /// What copies a device part by part, until close(). Errors  std::bad_alloc.
  [[nodiscard]] DeviceWork& work(Device device, const RegisteredBackend& owner)
      BERTH_EXCLUDES(work_mutex_);
  /// A transfer with tasks was cancelled, or has failed.
  void wake_work() noexcept BERTH_EXCLUDES(work_mutex_);
  /// Frees staging memory that no copy uses. Returns its bytes.
  /// Errors  As require_open(), and std::bad_alloc.
  std::size_t trim() BERTH_EXCLUDES(mutex_, work_mutex_);
  /// Reports an error with the message that `make` returns.
  template <class Make>
  void report(const Make& make) const noexcept {
    reporter_.report(Severity::error, make);
  }

  void count_written(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_read(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_copied(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] BufferCounters counters(Device device) const BERTH_EXCLUDES(mutex_, work_mutex_);

  /// Errors  As require_open(). InvalidArgument also: it overlaps mapped memory of its backend.
  void add(HostMappingState& mapped) BERTH_EXCLUDES(mutex_);
  void remove(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);
  /// `done` for an operation of `backend` on `memory`: until it is called, the operation uses what
  /// of the memory is mapped. Waits while a mapping of the memory ends. Errors  std::bad_alloc.
  [[nodiscard]] DeviceBackend::Done use_mapped(const DeviceBackend& backend,
                                               std::span<const std::byte> memory,
                                               DeviceBackend::Done done) BERTH_EXCLUDES(mutex_);
  /// While the result exists, what is mapped of the memory stays mapped. Null: nothing is mapped.
  /// Waits likewise. Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<const void> hold_mapped(const DeviceBackend& backend,
                                                        std::span<const std::byte> memory)
      BERTH_EXCLUDES(mutex_);
  /// Whether it is still mapped: not after close(), which otherwise waits for end_transfer(). Waits
  /// until no operation uses it.
  bool begin_unmapping(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);

  /// Waits for all transfers and their callbacks, frees the memory of all buffers, and unmaps all
  /// mapped memory.
  void close() noexcept BERTH_EXCLUDES(mutex_, work_mutex_);

 private:
  friend class BufferState;
  class MappedUse;
  /// Null: nothing is mapped.
  std::shared_ptr<MappedUse> find_mapped(const DeviceBackend& backend,
                                         std::span<const std::byte> memory) BERTH_EXCLUDES(mutex_);
  void end_use(const std::vector<HostMappingState*>& used) noexcept BERTH_EXCLUDES(mutex_);
  void require_here() const;
  void require_not_closed() const BERTH_REQUIRES(mutex_);
  void forget_transfer() noexcept BERTH_REQUIRES(mutex_);
  void count_created(Device device) noexcept BERTH_EXCLUDES(mutex_);
  /// Errors  As require_open(), and std::bad_alloc.
  void add(BufferState& state) BERTH_EXCLUDES(mutex_);
  void remove(BufferState& state) noexcept BERTH_EXCLUDES(mutex_);
  // For close(). Null: there is no more.
  std::shared_ptr<BufferState::Memory> take_one() noexcept BERTH_EXCLUDES(mutex_);
  HostMappingState* begin_unmapping_one() noexcept BERTH_EXCLUDES(mutex_);
  void wait_for_transfers() noexcept BERTH_REQUIRES(mutex_);

  const RequireHostMemory require_host_memory_;
  const Reporter reporter_;
  const ForkOrigin origin_;
  mutable Mutex mutex_;
  ConditionVariable idle_;
  ConditionVariable unused_;                            ///< mapped memory
  std::size_t transfers_ BERTH_GUARDED_BY(mutex_) = 0;  ///< not over, or callback not called
  bool is_closed_ BERTH_GUARDED_BY(mutex_) = false;
  std::unordered_set<BufferState*> live_ BERTH_GUARDED_BY(mutex_);
  std::unordered_set<HostMappingState*> mapped_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<Device, BufferCounters> counters_ BERTH_GUARDED_BY(mutex_);
  TaskThread notices_;
  mutable Mutex work_mutex_;
  /// Of each device that was copied part by part.
  std::unordered_map<Device, std::unique_ptr<DeviceWork>> work_ BERTH_GUARDED_BY(work_mutex_);
};

}  // namespace berth
