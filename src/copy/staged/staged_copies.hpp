// SPDX-License-Identifier: Apache-2.0
// Every copy through staging memory, of all devices: what memory it gets, and who does the host's share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/copier_options.hpp"
#include "berth/event_pool.hpp"

#include "base/mutex.hpp"
#include "copy/staged/copy_workers.hpp"
#include "copy/staged/host_work.hpp"
#include "copy/staged/staging_memory.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Threads  Safe from any thread.
class StagedCopies {
 public:
  StagedCopies(const DeviceRegistry& registry, PinnedAllocator& pinned,
               const CopierOptions& options);
  /// Waits for what is under way.
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// Submits a copy to a stream that is not captured. Null, and nothing is submitted, where the driver
  /// has to do it by its own means: there are no gates, no threads, or no staging memory to be had.
  /// Errors  OutOfMemory: StagingShortage::grow. DriverError: what was submitted is over.
  HostWork::CopyPtr start(StreamRef stream, StagedRoute route, int priority);

  /// Returns once no thread will touch the host's end again: it has been read, or has all bytes.
  /// Errors  What has ended the copy.
  void complete_host_side(const HostWork::CopyPtr& copy, CopyDirection direction);

  [[nodiscard]] HostWork& work() { return work_; }
  /// Of copies that wait for a disk.
  [[nodiscard]] HostWork& disk_work() { return disk_work_; }
  /// For marks behind copies on that device.
  [[nodiscard]] EventPool& events(DeviceContext& context) { return station(context).events; }
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  /// One device's.
  struct Station {
    Station(DeviceContext& context, PinnedAllocator& pinned, const CopierOptions& options)
        : memory(pinned, context.device(), options.staging_slot_bytes, options.staging_slots),
          events(context) {}
    StagingMemory memory;
    EventPool events;
    std::atomic<bool> has_gates = true;  ///< until the driver has said otherwise
  };

  Station& station(DeviceContext& context) BERTH_EXCLUDES(mutex_);
  std::optional<Staging> obtain(StagingMemory& memory, const DeviceContext& context,
                                const StagedRoute& route);
  /// Makes the copy, for the threads to work on. Where that fails, `staging` has gone back.
  static HostWork::CopyPtr add(HostWork& work, StreamRef stream, StagedRoute route, int priority,
                               StagingMemory& memory, Staging staging);
  /// Completes an old copy on that device, of those that wait for no disk if there is one; false where
  /// none is under way. `waited`: whether the device had to be waited for.
  bool complete_oldest(const DeviceContext& context, bool& waited);
  void end(StagedCopy& copy);

  PinnedAllocator& pinned_;
  const CopierOptions options_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Station>> stations_ BERTH_GUARDED_BY(mutex_);  ///< by ordinal
  std::atomic<std::uint64_t> waits_ = 0;
  HostWork work_;
  CopyWorkers workers_;
  // Apart, so that copies of memory do not wait for a thread that waits for a disk.
  HostWork disk_work_;
  CopyWorkers disk_workers_;
};

}  // namespace berth
