// SPDX-License-Identifier: Apache-2.0
// The shared state of the buffers and transfers of one Runtime. It outlives the Runtime as long as
// one of them exists. The Runtime closes it: from then on no buffer has memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "berth/device.hpp"
#include "berth/device_buffer.hpp"
#include "berth/report.hpp"

#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/reporter.hpp"
#include "buffer/buffer_state.hpp"
#include "buffer/device_works.hpp"
#include "buffer/host_mappings.hpp"
#include "buffer/task_thread.hpp"

namespace berth {

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

  /// `has_notice`: the transfer will post itself.
  /// Errors  As require_open(), and std::system_error.
  void begin_transfer(bool has_notice) BERTH_EXCLUDES(mutex_);
  void end_transfer() noexcept BERTH_EXCLUDES(mutex_);
  /// For callbacks of the program.
  void post(std::shared_ptr<Task> notice) noexcept { notices_.post(std::move(notice)); }
  /// What copies devices part by part, until close().
  [[nodiscard]] DeviceWorks& works() { return works_; }
  /// Until close(), before which nothing is mapped any more.
  [[nodiscard]] HostMappings& mappings() { return mappings_; }
  /// Reports an error with the message that `make` returns.
  template <class Make>
  void report(const Make& make) const noexcept {
    reporter_.report(Severity::error, make);
  }

  void count_written(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_read(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void count_copied(Device device, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] BufferCounters counters(Device device) const BERTH_EXCLUDES(mutex_);

  /// Waits for all transfers and their callbacks, frees the memory of all buffers, and unmaps all
  /// mapped memory.
  void close() noexcept BERTH_EXCLUDES(mutex_);

 private:
  friend class BufferState;
  void require_here() const;
  void require_not_closed() const BERTH_REQUIRES(mutex_);
  void forget_transfer() noexcept BERTH_REQUIRES(mutex_);
  void count_created(Device device) noexcept BERTH_EXCLUDES(mutex_);
  /// Errors  As require_open(), and std::bad_alloc.
  void add(BufferState& state) BERTH_EXCLUDES(mutex_);
  void remove(BufferState& state) noexcept BERTH_EXCLUDES(mutex_);
  /// For close(). Null: there is no more.
  std::shared_ptr<BufferState::Memory> take_one() noexcept BERTH_EXCLUDES(mutex_);
  void wait_for_transfers() noexcept BERTH_REQUIRES(mutex_);

  const RequireHostMemory require_host_memory_;
  const Reporter reporter_;
  const ForkOrigin origin_;
  mutable Mutex mutex_;
  ConditionVariable idle_;
  std::size_t transfers_ BERTH_GUARDED_BY(mutex_) = 0;  ///< not over, or callback not called
  bool is_closed_ BERTH_GUARDED_BY(mutex_) = false;
  std::unordered_set<BufferState*> live_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<Device, BufferCounters> counters_ BERTH_GUARDED_BY(mutex_);
  TaskThread notices_;
  DeviceWorks works_;
  HostMappings mappings_;
};

}  // namespace berth
