// SPDX-License-Identifier: Apache-2.0
// The shared state of the buffers and transfers of one Runtime. It outlives the Runtime as long as
// one of them exists. The Runtime closes it: from then on no buffer has memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"
#include "berth/device_buffer.hpp"
#include "berth/report.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "buffer/task_thread.hpp"
#include "device/backend_table.hpp"

namespace berth {

class BufferSet;
class HostMappingState;

/// The state of a DeviceBuffer.
class BufferState {
 public:
  BufferState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner, Device device,
              std::size_t bytes);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  /// Once, before any other thread has this. Null for 0 bytes.
  void fill(std::shared_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept;

  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const Transfer& ready() const { return ready_; }
  /// Errors  InvalidArgument: the Runtime has ended. NotSupported: in a forked child.
  void require_open() const;
  [[nodiscard]] const std::shared_ptr<BufferSet>& set() const { return set_; }

  // Only if require_open() has returned.
  [[nodiscard]] DeviceBackend& backend() const { return *owner_.backend; }
  /// Requires bytes().
  [[nodiscard]] const DeviceBackend::Buffer& buffer() const { return *buffer_; }
  /// The memory beyond the end of this, for a pending transfer. Requires bytes().
  [[nodiscard]] std::shared_ptr<const DeviceBackend::Buffer> share() const { return buffer_; }

 private:
  friend class BufferSet;
  const std::shared_ptr<BufferSet> set_;
  const RegisteredBackend& owner_;
  const Device device_;
  const std::size_t bytes_;
  std::shared_ptr<DeviceBackend::Buffer> buffer_;
  Transfer ready_;
};

/// Threads  Safe from any thread.
class BufferSet {
 public:
  /// Throws InvalidArgument for memory of a device.
  using RequireHostMemory =
      std::function<void(const void* data, std::size_t bytes, const char* name)>;

  BufferSet(RequireHostMemory require_host_memory, ReportSink sink)
      : require_host_memory_(std::move(require_host_memory)), sink_(std::move(sink)) {}

  /// Errors  InvalidArgument: it is closed. NotSupported: in a forked child.
  void require_open() const BERTH_EXCLUDES(mutex_);
  /// Only if require_open() has returned. `name` is for the error.
  void require_host_memory(const void* data, std::size_t bytes, const char* name) const {
    require_host_memory_(data, bytes, name);
  }
  [[nodiscard]] bool is_here() const { return origin_.is_here(); }

  /// `has_task`: the transfer will post itself. Errors  As require_open(), and std::system_error.
  void begin_transfer(bool has_task) BERTH_EXCLUDES(mutex_);
  void end_transfer() noexcept BERTH_EXCLUDES(mutex_);
  /// For callbacks of the program.
  void post(std::shared_ptr<Task> notice) noexcept { notices_.post(std::move(notice)); }
  /// Before post_work(). Errors  Exhausted: the system starts no more threads.
  void start_work() { work_.start(); }
  /// For work that waits for disks.
  void post_work(std::shared_ptr<Task> task) noexcept { work_.post(std::move(task)); }
  void report(const std::string& message) noexcept;

  void count_written(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_read(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_copied(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] BufferCounters counters(Device device) const BERTH_EXCLUDES(mutex_);

  /// Errors  As require_open(). InvalidArgument also: it overlaps mapped memory of its backend.
  void add(HostMappingState& mapped) BERTH_EXCLUDES(mutex_);
  void remove(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);
  /// Whether it is still mapped: not after close(), which otherwise waits for end_transfer().
  bool begin_unmapping(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);

  /// Waits for all transfers and their callbacks, frees the memory of all buffers, and unmaps all
  /// mapped memory.
  void close() noexcept BERTH_EXCLUDES(mutex_);

 private:
  friend class BufferState;
  void count_created(Device device) noexcept BERTH_EXCLUDES(mutex_);
  void add(BufferState& state) BERTH_EXCLUDES(mutex_);
  void remove(BufferState& state) noexcept BERTH_EXCLUDES(mutex_);

  const RequireHostMemory require_host_memory_;
  const ReportSink sink_;
  const ForkOrigin origin_;
  mutable Mutex mutex_;
  std::condition_variable_any idle_;
  std::size_t transfers_ BERTH_GUARDED_BY(mutex_) = 0;  ///< not over, or callback not called
  bool is_closed_ BERTH_GUARDED_BY(mutex_) = false;
  std::unordered_set<BufferState*> live_ BERTH_GUARDED_BY(mutex_);
  std::unordered_set<HostMappingState*> mapped_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<Device, BufferCounters> counters_ BERTH_GUARDED_BY(mutex_);
  TaskThread notices_;
  TaskThread work_;
};

}  // namespace berth
