// SPDX-License-Identifier: Apache-2.0
// The pinned slots of one device, through which pageable memory travels. A slot is held by the
// thread that fills or submits it, then busy until the work that uses it has passed, then free
// again.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "berth/event_pool.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/stream.hpp"

#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
class StagingRing {
 public:
  struct Slot {
    Allocation memory;
    std::optional<EventLease> last_use;  ///< marks the work that uses the slot; none while free
    std::uint64_t released_at = 0;       ///< counts releases: the lowest is the oldest
    bool held = false;

    // The copy out of the slot that a host function makes once the slot is filled.
    void* drain_target = nullptr;
    std::size_t drain_bytes = 0;
  };

  StagingRing(DeviceContext& context, PinnedAllocator& pinned, std::size_t slot_bytes,
              std::size_t slots_max);

  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }

  /// A slot that no work uses, held by the caller. Where every slot is in use, waits for the
  /// oldest; `waited` says so.
  /// Errors  OutOfMemory, DriverError.
  Slot& acquire(bool& waited);
  /// Gives a held slot back; the work that uses it is what `stream` holds now.
  void release(Slot& slot, StreamRef stream) noexcept;

 private:
  /// Holds a free slot, or a new one while there are fewer than the maximum; null where neither is.
  Slot* try_acquire();
  Slot* hold_oldest();
  /// Ends a hold that did not use the slot.
  void put_back(Slot& slot) noexcept;

  DeviceContext& context_;
  PinnedAllocator& pinned_;
  EventPool events_;
  const std::size_t slot_bytes_;
  const std::size_t slots_max_;

  Mutex mutex_;
  std::condition_variable_any slot_released_;
  std::deque<Slot> slots_ BERTH_GUARDED_BY(mutex_);  ///< grows only; a slot keeps its address
  std::uint64_t releases_ BERTH_GUARDED_BY(mutex_) = 0;
};

/// Holds one slot for a scope.
class StagingSlot {
 public:
  StagingSlot(StagingRing& ring, StreamRef stream)
      : ring_(ring), stream_(stream), slot_(ring.acquire(waited_)) {}
  ~StagingSlot() { ring_.release(slot_, stream_); }
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  [[nodiscard]] void* data() const { return slot_.memory.data(); }
  [[nodiscard]] StagingRing::Slot& slot() const { return slot_; }
  [[nodiscard]] bool waited() const { return waited_; }

 private:
  StagingRing& ring_;
  const StreamRef stream_;
  bool waited_ = false;
  StagingRing::Slot& slot_;
};

}  // namespace berth
