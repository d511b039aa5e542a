// SPDX-License-Identifier: Apache-2.0
// The uses of host memory by streams. Such memory is ordered on no stream: it may end only when the
// work that uses it is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "berth/stream.hpp"

#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/fork_safe_mutex.hpp"
#include "device/device_context.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/order/recorded_event.hpp"
#include "stream/mark_or_wait.hpp"

namespace berth {

/// The uses of all memory of one owner. `mutex` guards them and the owner's own records. A driver
/// call is made without it, and so may block without holding up calls for other memory; the stream
/// whose handle the call has does not end meanwhile.
/// Threads  Any. In a forked child: `mutex`, and functions that require it.
class StreamUses final : public StreamObserver {
 public:
  /// A block, or a registered range. The number is never reused.
  using Memory = std::uint64_t;

  /// Reports begin with `name`. `if_unknown`: the result for memory if a stream ends and the end of
  /// its work is not known.
  StreamUses(const DeviceEventPools& events, const char* name, const char* if_unknown);
  ~StreamUses() override;

  mutable ForkSafeMutex mutex;

  [[nodiscard]] Memory new_memory() BERTH_REQUIRES(mutex) { return ++last_memory_; }
  /// Marks the current work of `stream`. A captured stream cannot be marked: without an event, the
  /// use lasts until the end of the memory.
  /// Errors  DriverError. Exhausted: there is no event.
  [[nodiscard]] RecordedEvent record(StreamRef stream);
  /// Adds a use that ends at `mark`. Of two uses of a stream, the later one counts. `mark` becomes
  /// one that is not necessary any more, because its destructor takes locks.
  /// Errors  std::bad_alloc: nothing is changed.
  void add(Memory memory, StreamRef stream, RecordedEvent& mark) BERTH_REQUIRES(mutex);
  [[nodiscard]] bool has_uses(Memory memory) const BERTH_REQUIRES(mutex) {
    return uses_.contains(memory);
  }

  // For memory that gets no more uses. Uses that are over are dropped.

  /// Gives each use its event, unless the stream is captured or the driver refuses the call: then
  /// the next call repeats it. Never waits for the GPU.
  void mark(Memory memory) noexcept BERTH_EXCLUDES(mutex);
  /// Marks the uses that can be marked, and returns whether all are over. False on a failed device.
  [[nodiscard]] bool are_over(Memory memory) noexcept BERTH_EXCLUDES(mutex);
  /// Waits for all uses. False if one has no event, or the device has failed.
  [[nodiscard]] bool wait_for_marked(Memory memory) noexcept BERTH_EXCLUDES(mutex);
  /// Marks all uses and waits for them. Work that failed is over, and work whose end is not known
  /// is reported.
  void wait_for_all(Memory memory) noexcept BERTH_EXCLUDES(mutex);

  /// Marks the uses that last until the end of the memory. Afterwards none has the stream's handle.
  void stream_retiring(DeviceContext& context, CUstream native) noexcept override
      BERTH_EXCLUDES(mutex);

 private:
  struct Use {
    /// nullopt once the stream has ended: then the event covers the use.
    std::optional<StreamRef> stream;
    /// Behind the last work that uses the memory. Without an event: recorded later, because that
    /// work is not submitted or was captured; without a stream: never known.
    RecordedEvent mark = {};
    bool is_handle_used = false;  ///< by a thread without the lock
  };
  using Uses = std::multimap<Memory, Use>;

  /// Calls `mark_end(stream)` without the lock for each use that has no event. Its result is the
  /// event, which is null if the end of the work is over or never known; nullopt: no change.
  template <class MarkEnd>
  void mark_each(Memory memory, const MarkEnd& mark_end) noexcept BERTH_EXCLUDES(mutex);
  /// Calls `is_over(event)` without the lock for each use, and drops the use if true; at the first
  /// false returns false. The event may be null.
  template <class IsOver>
  bool drop_each(Memory memory, const IsOver& is_over) noexcept BERTH_EXCLUDES(mutex);
  /// The marked uses of a stream that ends keep no handle. Whether it has other ones.
  [[nodiscard]] bool forget_marked(StreamRef stream) BERTH_EXCLUDES(mutex);
  void report_unknown(const LastWork& end) const noexcept;

  const ForkOrigin origin_;
  const DeviceEventPools& events_;
  const char* const name_;
  const char* const if_unknown_;
  std::atomic<std::uint64_t> clock_ = 0;  ///< of records
  Memory last_memory_ BERTH_GUARDED_BY(mutex) = 0;
  Uses uses_ BERTH_GUARDED_BY(mutex);
  std::shared_ptr<ConditionVariable> handle_use_ended_ = std::make_shared<ConditionVariable>();
};

}  // namespace berth
