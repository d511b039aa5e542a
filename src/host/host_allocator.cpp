// SPDX-License-Identifier: Apache-2.0
// `uses_.mutex` guards the records. No driver call is made under it, so that a forked child can use
// it. `poll_mutex_` admits one thread at a time to blocks that await streams, so that a thread that
// lacks memory waits for what another one returns. It is held during driver calls, so a free does
// not take it, nor does a child. Order: poll_mutex_, then uses_.mutex.
#include "berth/host_allocator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "berth/bytes.hpp"

#include "base/counted.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "device/own_context.hpp"
#include "host/host_blocks.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_budget.hpp"
#include "memory/memory_errors.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/order/stream_uses.hpp"
#include "memory/recorded_block.hpp"
#include "memory/try_result.hpp"
#include "stream/capture.hpp"
#include "stream/default_streams.hpp"

namespace berth {

class BERTH_HIDDEN HostAllocator::Impl {
 public:
  Impl(const DeviceRegistry& registry, const HostAllocatorOptions& options)
      : budget_({.max = options.bytes_reserved_max.value_or(MemoryBudget::kNoLimit)}),
        events_(registry),
        uses_(events_, kHostAllocatorName, "memory that it uses stays until the end") {}

  ~Impl() {
    while (wait_for_one(last_pending())) {
    }
    const MemorySnapshot left = snapshot();
    for (const SegmentInfo& block : left.segments)
      std::free(reinterpret_cast<void*>(block.address));
    const std::uint64_t live = left.counters.blocks_allocated.current;
    if (live == 0 || events_.empty()) return;
    events_.driver().report(Severity::warning, [&] {
      return format_text("{}: {} of {} {} still live when the allocator was destroyed",
                         kHostAllocatorName, counted(live, "allocation"),
                         format_bytes(left.counters.bytes_requested.current), were(live));
    });
  }

  void* allocate(std::size_t bytes) BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
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
      const MutexLock lock(uses_.mutex);
      blocks_.add(data, bytes, uses_.new_memory());
    } catch (...) {
      give_back(data, rounded);
      throw;
    }
    return data;
  }

  void deallocate(void* data) BERTH_EXCLUDES(uses_.mutex) {
    std::size_t bytes = 0;
    StreamUses::Memory awaited = 0;
    {
      const MutexLock lock(uses_.mutex);
      awaited = require_live(data, "free");
      if (uses_.has_uses(awaited) && origin_.is_here()) {
        blocks_.defer(data);
        ++pending_;
      } else {
        bytes = blocks_.remove(data);
      }
    }
    if (bytes > 0) return give_back(data, bytes);
    uses_.mark(awaited);
  }

  void record_stream(void* data, StreamRef stream) BERTH_EXCLUDES(uses_.mutex) {
    require_user(stream);
    add_use(data, stream, {}, "record a stream on");
  }

  void record_use(void* data, StreamRef stream) BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    require_user(stream);
    const auto mark = [&] {
      try {
        return uses_.record(stream);
      } catch (const Exhausted&) {
        poll_all();  // returns the events of completed frees
      }
      return uses_.record(stream);
    };
    add_use(data, stream, mark(), "record a use of");
  }

  std::size_t trim(std::size_t bytes_to_keep) BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    const std::size_t before = budget_.reserved();
    poll_all();
    const HostBlocks::PendingId deferred_by = last_pending();
    while (budget_.reserved() > bytes_to_keep && wait_for_one(deferred_by)) {
    }
    return before - std::min(before, budget_.reserved());
  }

  /// Frees the blocks whose streams are done. Returns the number of bytes.
  std::size_t poll_all() BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    if (pending_ == 0 || !origin_.is_here()) return 0;
    const MutexLock one_at_a_time(poll_mutex_);
    return poll(pending_);
  }

  void retire_stream(StreamRef stream) noexcept {
    uses_.stream_retiring(stream.context(), stream.native());
  }

  [[nodiscard]] std::optional<HostBlocks::Found> find(const void* data) const
      BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    return blocks_.find(data);
  }
  [[nodiscard]] MemoryCounters counters() const BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    return blocks_.counters();
  }
  void reset_peaks() BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    berth::reset_peaks(blocks_.counters());
  }
  [[nodiscard]] MemorySnapshot snapshot() const BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    return blocks_.snapshot();
  }
  void validate() const BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
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
  StreamUses::Memory require_live(void* data, const char* action) BERTH_REQUIRES(uses_.mutex) {
    if (const auto uses = blocks_.find_uses(data)) return *uses;
    throw InvalidArgument(blocks_.describe_foreign(data, action));
  }

  void add_use(void* data, StreamRef stream, RecordedEvent mark, const char* action)
      BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    const StreamUses::Memory uses = require_live(data, action);
    blocks_.prepare_defer(data);
    uses_.add(uses, stream, mark);
  }

  /// Queries that many of the blocks that await streams, in turn.
  std::size_t poll(std::size_t blocks) BERTH_REQUIRES(poll_mutex_) BERTH_EXCLUDES(uses_.mutex) {
    const RelaxedCapture relaxed(events_.driver());
    std::size_t released = 0;
    for (; blocks > 0; --blocks) {
      const auto next = next_pending(last_polled_);
      if (!next) break;
      last_polled_ = next->id;
      if (uses_.are_over(next->uses)) released += release(next->id);
    }
    return released;
  }

  void poll_some() BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    if (pending_ == 0 || !origin_.is_here()) return;
    if (!poll_mutex_.try_lock()) return;
    poll(kPolledPerAllocation);
    poll_mutex_.unlock();
  }

  /// 0 if another thread has released the block.
  std::size_t release(HostBlocks::PendingId id) BERTH_REQUIRES(poll_mutex_) {
    std::optional<HostBlocks::Pending> block;
    {
      const MutexLock lock(uses_.mutex);
      block = blocks_.remove_pending(id);
    }
    if (!block) return 0;
    give_back(block->data, block->bytes);
    --pending_;  // last, so that a thread that sees no pending block sees its bytes in the budget
    return block->bytes;
  }

  /// Waits for the oldest marked block, of those deferred by `deferred_by`, and frees it; false if
  /// there is none.
  bool wait_for_one(HostBlocks::PendingId deferred_by) BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    if (pending_ == 0 || !origin_.is_here()) return false;
    HostBlocks::PendingId id = 0;
    for (bool is_over = false; !is_over;) {
      const auto next = next_unpolled(id);
      if (!next || next->id <= id || next->id > deferred_by) return false;
      id = next->id;
      is_over = uses_.wait_for_marked(next->uses);
    }
    const MutexLock one_at_a_time(poll_mutex_);
    release(id);
    poll(pending_);
    const MutexLock lock(uses_.mutex);
    blocks_.counters().deferred_free_waits += 1;
    return true;
  }

  [[nodiscard]] HostBlocks::PendingId last_pending() const BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    return blocks_.last_pending();
  }
  [[nodiscard]] std::optional<HostBlocks::Next> next_pending(HostBlocks::PendingId id) const
      BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
    return blocks_.next_pending(id);
  }

  /// Not while a poll returns memory, of which no record is left.
  [[nodiscard]] std::optional<HostBlocks::Next> next_unpolled(HostBlocks::PendingId id)
      BERTH_EXCLUDES(poll_mutex_, uses_.mutex) {
    const MutexLock no_poll(poll_mutex_);
    return next_pending(id);
  }

  /// Null if the limit or malloc refuses.
  void* obtain(std::size_t bytes) BERTH_EXCLUDES(uses_.mutex) {
    if (!budget_.try_reserve(bytes)) {
      const MutexLock lock(uses_.mutex);
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

  [[noreturn]] void refuse(std::size_t bytes) BERTH_EXCLUDES(uses_.mutex) {
    const MutexLock lock(uses_.mutex);
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
  Mutex poll_mutex_;
  HostBlocks::PendingId last_polled_ BERTH_GUARDED_BY(poll_mutex_) = 0;
  StreamUses uses_;
  HostBlocks blocks_ BERTH_GUARDED_BY(uses_.mutex);
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
  if (data == nullptr) return;
  refuse_per_thread_default(stream);
  impl_->record_stream(data, stream);
}

void HostAllocator::record_use(void* data, StreamRef stream) {
  if (data == nullptr) return;
  refuse_per_thread_default(stream);
  impl_->record_use(data, stream);
}

std::size_t HostAllocator::trim(std::size_t bytes_to_keep) {
  return impl_->trim(bytes_to_keep);
}

std::size_t HostAllocator::release_unused(std::chrono::nanoseconds) {
  return impl_->poll_all();
}

void HostAllocator::retire_stream(StreamRef stream) noexcept {
  impl_->retire_stream(stream);
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
