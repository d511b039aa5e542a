// SPDX-License-Identifier: Apache-2.0
// `mutex_` guards the records and is never held during a call of the driver or of malloc, so that a
// forked child can use it. `poll_mutex_` admits one thread at a time to recorded streams, so that
// none ends meanwhile; a child does not use it. Order: poll_mutex_, then mutex_.
#include "berth/host_allocator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "berth/bytes.hpp"

#include "base/counted.hpp"
#include "base/fork.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/format.hpp"
#include "device/observe_devices.hpp"
#include "device/own_context.hpp"
#include "host/host_blocks.hpp"
#include "host/host_use_marks.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_budget.hpp"
#include "memory/memory_errors.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/recorded_block.hpp"
#include "memory/try_result.hpp"
#include "stream/capture.hpp"
#include "stream/default_streams.hpp"
#include "stream/mark_or_wait.hpp"

namespace berth {

class BERTH_HIDDEN HostAllocator::Impl final : public StreamObserver {
 public:
  Impl(const DeviceRegistry& registry, const HostAllocatorOptions& options)
      : budget_({.max = options.bytes_reserved_max.value_or(MemoryBudget::kNoLimit)}),
        events_(registry),
        marks_(events_) {
    add_observer_of_all(registry, *this);
  }

  ~Impl() override {
    if (origin_.is_here()) {
      remove_observer_of_all(events_.registry(), *this);
      while (wait_for_one(last_pending())) {
      }
    }
    const MutexLock lock(mutex_);
    const std::uint64_t live = blocks_.counters().blocks_allocated.current;
    for (const SegmentInfo& block : blocks_.snapshot().segments)
      std::free(reinterpret_cast<void*>(block.address));
    if (live > 0) {
      marks_.report([&] {
        return format_text("{} {} still live when the allocator was destroyed",
                           counted(live, "allocation"), were(live));
      });
    }
  }

  void* allocate(std::size_t bytes) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    constexpr std::size_t kBytesMax = std::numeric_limits<std::ptrdiff_t>::max() - kAlignment;
    if (bytes > kBytesMax)
      throw OutOfMemory(describe_impossible_request(kHostAllocatorName, bytes, kBytesMax,
                                                    Capacity::of_the_machine));
    poll_some();
    const std::size_t rounded = HostBlocks::bytes_for(bytes);
    void* data = obtain(rounded);
    const HostBlocks::PendingId deferred_by = last_pending();
    for (bool is_last = false; data == nullptr && !is_last; data = obtain(rounded)) {
      is_last = poll_all() == 0 && !wait_for_one(deferred_by);  // others may have freed blocks
    }
    if (data == nullptr) refuse(bytes);
    try {
      const MutexLock lock(mutex_);
      blocks_.add(data, bytes);
    } catch (...) {
      give_back(data, rounded);
      throw;
    }
    return data;
  }

  void deallocate(void* data) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    std::size_t bytes = 0;
    {
      const MutexLock lock(mutex_);
      if (require_live(data, "free").empty() || !origin_.is_here()) bytes = blocks_.remove(data);
    }
    if (bytes > 0) return give_back(data, bytes);
    const MutexLock no_poll(poll_mutex_);  // and no stream ends while its use is marked
    std::pair<HostBlocks::PendingId, HostUses> deferred;
    {
      const MutexLock lock(mutex_);
      require_live(data, "free");
      deferred = blocks_.defer(data);
      ++pending_;
    }
    for (HostUse& use : deferred.second) marks_.try_mark(use);
    const MutexLock lock(mutex_);
    blocks_.swap_uses(deferred.first, deferred.second);
  }

  void record_stream(void* data, StreamRef stream) BERTH_EXCLUDES(mutex_) {
    require_user(stream);
    add_use(data, {stream, nullptr}, "record a stream on");
  }

  void record_use(void* data, StreamRef stream) BERTH_EXCLUDES(record_mutex_, mutex_) {
    require_user(stream);
    try {
      return mark_use(data, stream);
    } catch (const Exhausted&) {
      poll_all();  // returns the events of completed frees
    }
    mark_use(data, stream);
  }

  std::size_t trim(std::size_t bytes_to_keep) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    const std::size_t before = budget_.reserved();
    poll_all();
    const HostBlocks::PendingId deferred_by = last_pending();
    while (budget_.reserved() > bytes_to_keep && wait_for_one(deferred_by)) {
    }
    return before - std::min(before, budget_.reserved());
  }

  /// Frees the blocks whose streams are done. Returns the number of bytes.
  std::size_t poll_all() BERTH_EXCLUDES(poll_mutex_, mutex_) {
    if (pending_ == 0 || !origin_.is_here()) return 0;
    const MutexLock one_at_a_time(poll_mutex_);
    return poll(pending_);
  }

  void stream_retiring(DeviceContext& context, CUstream native) noexcept override {
    if (!origin_.is_here()) return;
    const StreamRef stream(context, native);
    if (!forget(stream)) return;
    const WorkEnd end = mark_or_wait(stream, events_.of(context), kHostAllocatorName);
    {
      const MutexLock no_poll(poll_mutex_);
      const MutexLock lock(mutex_);
      blocks_.forget(stream);  // what other threads have marked meanwhile
      if (end.state == WorkEnd::State::over) {
        blocks_.drop(stream);
      } else {
        blocks_.mark(stream, end.event);
      }
    }
    if (end.event != nullptr || end.state == WorkEnd::State::over) return;
    marks_.report([&] {
      return end.state == WorkEnd::State::captured
                 ? "a stream is destroyed while it is captured: memory that it uses stays until "
                   "the end"
                 : "a stream ends of which the driver accepts no call: memory that it uses stays "
                   "until the end";
    });
  }

  [[nodiscard]] std::optional<HostBlocks::Found> find(const void* data) const
      BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return blocks_.find(data);
  }
  [[nodiscard]] MemoryCounters counters() const BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return blocks_.counters();
  }
  void reset_peaks() BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    berth::reset_peaks(blocks_.counters());
  }
  [[nodiscard]] MemorySnapshot snapshot() const BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return blocks_.snapshot();
  }
  void validate() const BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    blocks_.validate();
  }

 private:
  /// One more than an allocation can add, so that the number of blocks that await streams
  /// decreases.
  static constexpr std::size_t kPolledPerAllocation = 2;

  void require_user(StreamRef stream) const {
    origin_.require_here("a stream that uses memory of cpu");
    require_own_context(events_.registry(), stream.context(), "recorded for memory of cpu");
  }
  void mark_use(void* data, StreamRef stream) BERTH_EXCLUDES(record_mutex_, mutex_) {
    // Of two marks of one stream, the later one counts, so marks are added in the order of
    // recording.
    const MutexLock in_order(record_mutex_);
    // A captured stream cannot be marked: the free or a later poll marks the use.
    add_use(data, {stream, marks_.mark(stream)}, "record a use of");
  }
  /// The marked uses of a stream that ends keep no handle. Whether it has other ones.
  bool forget(StreamRef stream) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    const MutexLock no_poll(poll_mutex_);
    const MutexLock lock(mutex_);
    blocks_.forget(stream);
    return blocks_.has_unmarked(stream);
  }

  HostUses& require_live(void* data, const char* action) BERTH_REQUIRES(mutex_) {
    if (HostUses* const uses = blocks_.find_uses(data)) return *uses;
    throw InvalidArgument(blocks_.describe_foreign(data, action));
  }

  void add_use(void* data, HostUse use, const char* action) BERTH_EXCLUDES(mutex_) {
    HostUse replaced;
    const MutexLock lock(mutex_);
    require_live(data, action);
    replaced = blocks_.add_use(data, std::move(use));
  }

  /// Queries that many of the blocks that await streams, in turn.
  std::size_t poll(std::size_t blocks) BERTH_REQUIRES(poll_mutex_) BERTH_EXCLUDES(mutex_) {
    const RelaxedCapture relaxed(events_.driver());
    std::size_t released = 0;
    try {
      for (; blocks > 0; --blocks) {
        auto next = next_pending(last_polled_);
        if (!next) break;
        last_polled_ = next->first;
        released +=
            marks_.are_over(next->second) ? release(next->first) : keep(next->first, next->second);
      }
    } catch (const std::bad_alloc&) {  // queried again later; poll_some() must release a lock
    }
    return released;
  }

  void poll_some() BERTH_EXCLUDES(poll_mutex_, mutex_) {
    if (pending_ == 0 || !origin_.is_here()) return;
    if (!poll_mutex_.try_lock()) return;
    poll(kPolledPerAllocation);
    poll_mutex_.unlock();
  }

  std::size_t release(HostBlocks::PendingId id) BERTH_EXCLUDES(mutex_) {
    HostBlocks::Pending block;
    {
      const MutexLock lock(mutex_);
      block = blocks_.remove_pending(id);
    }
    give_back(block.data, block.bytes);
    --pending_;  // last, so that a thread that sees no pending block sees its bytes in the budget
    return block.bytes;
  }
  std::size_t keep(HostBlocks::PendingId id, HostUses& uses) BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    blocks_.swap_uses(id, uses);
    return 0;
  }

  /// Waits for the oldest marked block, of those deferred by `deferred_by`, and frees it; false if
  /// there is none.
  bool wait_for_one(HostBlocks::PendingId deferred_by) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    if (pending_ == 0 || !origin_.is_here()) return false;
    for (HostBlocks::PendingId id = 0;;) {
      const auto next = next_pending_unpolled(id);
      if (!next || next->first <= id || next->first > deferred_by) return false;
      id = next->first;
      if (!marks_.wait_for(next->second)) continue;
      poll_all();
      const MutexLock lock(mutex_);
      blocks_.counters().pending_free_waits += 1;
      return !blocks_.has_pending(id);
    }
  }

  [[nodiscard]] HostBlocks::PendingId last_pending() const BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return blocks_.last_pending();
  }
  [[nodiscard]] std::optional<std::pair<HostBlocks::PendingId, HostUses>> next_pending_unpolled(
      HostBlocks::PendingId id) BERTH_EXCLUDES(poll_mutex_, mutex_) {
    const MutexLock no_poll(poll_mutex_);
    return next_pending(id);
  }
  [[nodiscard]] std::optional<std::pair<HostBlocks::PendingId, HostUses>> next_pending(
      HostBlocks::PendingId id) const BERTH_REQUIRES(poll_mutex_) BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return blocks_.next_pending(id);
  }

  /// Null if the limit or malloc refuses.
  void* obtain(std::size_t bytes) BERTH_EXCLUDES(mutex_) {
    if (!budget_.try_reserve(bytes)) {
      const MutexLock lock(mutex_);
      ++blocks_.counters().limit_rejections;
      return nullptr;
    }
    void* const data = std::aligned_alloc(kAlignment, bytes);
    if (data == nullptr) budget_.give_back(bytes);
    return data;
  }
  void give_back(void* data, std::size_t bytes) {
    std::free(data);
    budget_.give_back(bytes);
  }

  [[noreturn]] void refuse(std::size_t bytes) BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++blocks_.counters().out_of_memory;
    throw OutOfMemory(describe_out_of_memory({.allocator = kHostAllocatorName,
                                              .bytes_requested = bytes,
                                              .counters = blocks_.counters(),
                                              .bytes_reserved_max = budget_.limit(),
                                              .largest_free_block_bytes = 0,
                                              .driver_free_bytes = 0,
                                              .driver_total_bytes = 0}));
  }

  const ForkOrigin origin_;
  MemoryBudget budget_;
  const DeviceEventPools events_;
  const HostUseMarks marks_;
  Mutex record_mutex_;
  Mutex poll_mutex_;
  HostBlocks::PendingId last_polled_ BERTH_GUARDED_BY(poll_mutex_) = 0;
  mutable ForkSafeMutex mutex_;
  HostBlocks blocks_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> pending_ = 0;  ///< blocks that await streams
};

HostAllocator::HostAllocator(const DeviceRegistry& registry, HostAllocatorOptions options)
    : impl_(std::make_unique<Impl>(registry, options)) {}

HostAllocator::~HostAllocator() = default;

void* HostAllocator::allocate_raw(std::size_t bytes) {
  return bytes == 0 ? nullptr : impl_->allocate(bytes);
}

void* HostAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  return recorded(*this, allocate_raw(bytes), stream);
}

std::optional<MemoryBlock> HostAllocator::find(const void* data) {
  const auto found = impl_->find(data);
  return found ? std::optional(MemoryBlock{this, device(), found->data, found->bytes})
               : std::nullopt;
}

Result<Allocation> HostAllocator::try_allocate(std::size_t bytes) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes); });
}

void HostAllocator::deallocate(void* data) {
  if (data != nullptr) impl_->deallocate(data);
}

void HostAllocator::record_stream(void* data, StreamRef stream) {
  require_one_stream(stream);
  if (data != nullptr) impl_->record_stream(data, stream);
}

void HostAllocator::record_use(void* data, StreamRef stream) {
  require_one_stream(stream);
  if (data != nullptr) impl_->record_use(data, stream);
}

std::size_t HostAllocator::trim(std::size_t bytes_to_keep) {
  return impl_->trim(bytes_to_keep);
}

std::size_t HostAllocator::release_unused(std::chrono::nanoseconds) {
  return impl_->poll_all();
}

void HostAllocator::retire_stream(StreamRef stream) noexcept {
  impl_->stream_retiring(stream.context(), stream.native());
}

MemoryCounters HostAllocator::counters() const {
  return impl_->counters();
}

void HostAllocator::reset_peaks() {
  impl_->reset_peaks();
}

MemorySnapshot HostAllocator::snapshot() const {
  return impl_->snapshot();
}

void HostAllocator::validate() const {
  impl_->validate();
}

}  // namespace berth
