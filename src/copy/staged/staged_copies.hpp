// SPDX-License-Identifier: Apache-2.0
// Copies through staging memory, of all devices: chooses their memory and the threads for their
// host work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "berth/copier_options.hpp"
#include "berth/event_pool.hpp"

#include "base/mutex.hpp"
#include "copy/staged/copy_workers.hpp"
#include "copy/staged/device_watch.hpp"
#include "copy/staged/host_work.hpp"
#include "copy/staged/staging_memory.hpp"
#include "copy/staged/stream_gates.hpp"
#include "device/device_context.hpp"
#include "device/host_progress.hpp"
#include "device/stream_observer.hpp"

namespace berth {

/// Threads  Safe from any thread.
class StagedCopies final : public HostProgress, public StreamObserver {
 public:
  StagedCopies(const DeviceRegistry& registry, PinnedAllocator& pinned,
               const CopierOptions& options);
  /// Waits for pending copies.
  ~StagedCopies() override;
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// Submits a copy to a stream that is not captured. Returns null, and submits nothing, if gates,
  /// threads or staging memory are not available, so that the driver has to copy.
  /// Errors  OutOfMemory: StagingShortage::grow. DriverError: submitted work has completed.
  HostWork::CopyPtr start(StreamRef stream, StagedRoute route, int priority);

  /// Returns when no thread will access the host end again: it has been read, or contains all
  /// bytes.
  /// Errors  The failure of the copy.
  void complete_host_side(const HostWork::CopyPtr& copy, CopyDirection direction);

  [[nodiscard]] HostWork& work() { return work_; }
  /// The host work of copies of files.
  [[nodiscard]] HostWork& disk_work() { return disk_work_; }
  /// For marks behind copies on that device.
  [[nodiscard]] EventPool& events(DeviceContext& context) { return device_staging(context).events; }
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  /// Staging memory of all devices that copies hold now.
  [[nodiscard]] std::size_t bytes_in_use() const BERTH_EXCLUDES(mutex_);

  void make_progress(DeviceContext& context, CUstream native) noexcept override;
  void make_progress(DeviceContext& context) noexcept override;
  /// The handle of a stream that berth does not own may name another stream after this.
  void stream_retiring(DeviceContext& context, CUstream native) noexcept override;

 private:
  /// The number of a stream that berth owns, or the handle of a foreign stream; and the HostWork of
  /// the copies.
  using StreamKey = std::tuple<std::uint64_t, CUstream, const HostWork*>;

  /// State shared by the copies of one stream.
  struct StreamStaging {
    std::weak_ptr<CopyLane> lane;
    std::weak_ptr<StagingBlocks> blocks;  ///< later copies may share them
  };

  /// The state for one device.
  struct DeviceStaging {
    DeviceStaging(DeviceContext& context, PinnedAllocator& pinned, const CopierOptions& options)
        : gates(context, options.gates),
          memory(pinned, context.device(), options.staging_slot_bytes, options.staging_slots),
          events(context, {.events_max = std::numeric_limits<std::size_t>::max()}) {}
    StreamGates gates;
    StagingMemory memory;
    EventPool events;
    Mutex mutex;
    std::map<StreamKey, StreamStaging> streams BERTH_GUARDED_BY(mutex);
    std::size_t streams_bound BERTH_GUARDED_BY(mutex) =
        64;  ///< beyond this number, idle streams are removed
  };

  DeviceStaging& device_staging(DeviceContext& context) BERTH_EXCLUDES(mutex_);
  /// Null if the device has none yet.
  DeviceStaging* find_device_staging(const DeviceContext& context) BERTH_EXCLUDES(mutex_);
  static StreamKey key_of(StreamRef stream, const HostWork& work);
  static HostWork::LanePtr lane_of(DeviceStaging& here, StreamRef stream, const HostWork& work);
  /// Does not wait.
  std::optional<Staging> obtain(DeviceStaging& here, StreamRef stream, const HostWork& work,
                                const StagedRoute& route);
  /// Lets later copies of the stream share the blocks.
  static void offer_blocks(DeviceStaging& here, StreamRef stream, const HostWork& work,
                           const std::shared_ptr<StagingBlocks>& blocks);
  /// Called if all slots are in use.
  static std::optional<Staging> share_or_take_spare(DeviceStaging& here, StreamRef stream,
                                                    const HostWork& work, std::size_t bytes);

  PinnedAllocator& pinned_;
  const CopierOptions options_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<DeviceStaging>> device_staging_
      BERTH_GUARDED_BY(mutex_);                                    ///< by ordinal
  std::vector<DeviceContext*> contexts_ BERTH_GUARDED_BY(mutex_);  ///< of stations
  std::atomic<std::uint64_t> waits_ = 0;
  HostWork work_;
  // Separate, so that copies of memory do not wait for a thread that waits for a disk.
  HostWork disk_work_;
  DeviceWatch watch_;  ///< destroyed after the workers, which wake it
  CopyWorkers workers_;
  CopyWorkers disk_workers_;
};

}  // namespace berth
