// SPDX-License-Identifier: Apache-2.0
// Every copy through staging memory, of all devices: what memory it gets, and who does the host's share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
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
    /// What copies of a stream may share, by the stream and those who do their host's share.
    Mutex mutex;
    std::map<std::pair<CUstream, const HostWork*>, std::weak_ptr<StagingBlocks>> in_use
        BERTH_GUARDED_BY(mutex);
    std::atomic<bool> has_gates = true;  ///< until the driver has said otherwise
  };

  Station& station(DeviceContext& context) BERTH_EXCLUDES(mutex_);
  /// Waits for nothing.
  std::optional<Staging> obtain(Station& here, StreamRef stream, const HostWork& work,
                                const StagedRoute& route);
  /// Later copies of the stream may share the blocks. Their `submission` is held.
  static void let_share(Station& here, StreamRef stream, const HostWork& work,
                        const std::shared_ptr<StagingBlocks>& blocks);
  /// Where all slots are in use.
  static std::optional<Staging> share_or_take_spare(Station& here, StreamRef stream,
                                                    const HostWork& work, std::size_t bytes);

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
