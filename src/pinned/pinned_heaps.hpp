// SPDX-License-Identifier: Apache-2.0
// All heaps of pinned memory, one for each NUMA node and kind, behind one PinnedAllocator. They
// share its limits, and return cached memory to each other. If all devices are near one node, there
// is one heap of each kind.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "memory/background_thread.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/memory_budget.hpp"
#include "memory/order/device_event_pools.hpp"
#include "pinned/pinned_registrations.hpp"
#include "pinned/pinned_segments.hpp"

namespace berth {

/// Exists if there is a device. Contracts: PinnedAllocator.
/// Threads  Any.
class PinnedHeaps {
 public:
  PinnedHeaps(const DeviceRegistry& registry, const PinnedAllocatorOptions& options);
  ~PinnedHeaps();
  PinnedHeaps(const PinnedHeaps&) = delete;
  PinnedHeaps& operator=(const PinnedHeaps&) = delete;

  void* allocate(std::size_t bytes) {
    if (Heap* const heap = only_.load(std::memory_order_acquire)) [[likely]] {
      if (void* data = heap->allocator.allocate_cached(bytes, std::nullopt)) [[likely]] {
        if (is_simulated_) [[unlikely]]
          notify_simulator(data, bytes);
        return data;
      }
    }
    return allocate_slow(bytes, {});
  }
  void* allocate(std::size_t bytes, const PinnedOptions& options) {
    return allocate_slow(bytes, options);
  }
  void deallocate(void* data) {
    Heap* const heap = only_.load(std::memory_order_acquire);
    const bool is_cached = heap != nullptr && heap->allocator.try_cache_free(data);
    if (is_cached && bytes_cached_max_ == MemoryBudget::kNoLimit) [[likely]]
      return;
    request_return(free_in_heap(data, is_cached ? heap : nullptr));
  }
  void record_stream(void* data, StreamRef stream);
  void record_use(void* data, StreamRef stream);
  void keep_for_graph(void* data, StreamRef stream);
  std::size_t trim(std::size_t bytes_to_keep);
  std::size_t release_unused(std::chrono::nanoseconds age);
  void retire_stream(StreamRef stream) noexcept;

  /// The live block or registration that covers `data`. The size of a registration is given as 0:
  /// the memory of the program may extend beyond it.
  [[nodiscard]] FoundBlock look_up(const void* data) const;
  [[nodiscard]] bool owns(const void* data) const { return owner_of(data) != nullptr; }
  [[nodiscard]] std::optional<PinnedRange> find(const void* data) const;
  [[nodiscard]] MemoryCounters counters() const;
  [[nodiscard]] PinnedGrowthCounters growth_counters() const;
  void reset_peaks();
  [[nodiscard]] MemorySnapshot snapshot() const;
  void validate() const;
  void finish_background_work() { background_.wait_until_done(); }

  /// Not in a forked child.
  [[nodiscard]] bool is_usable() const { return origin_.is_here(); }
  [[nodiscard]] const Driver& driver() const { return events_.driver(); }
  [[nodiscard]] const DeviceRegistry& registry() const { return registry_; }
  [[nodiscard]] PinnedRegistrations& registrations() { return registrations_; }
  [[nodiscard]] const PinnedRegistrations& registrations() const { return registrations_; }
  /// PinnedRegistrations::add() for memory that is not a block.
  void add_registration(void* data, std::size_t bytes);

 private:
  [[nodiscard]] MemorySnapshot read_heaps() const;

  struct Heap {
    Heap(PinnedHeaps& heaps, PinnedKind of_kind, std::optional<int> of_node, std::string name);

    const PinnedKind kind;
    const std::optional<int> node;
    MemoryBudget budget;
    PinnedSegments* segments = nullptr;
    std::atomic<bool> needs_growth = false;
    // For the background thread.
    std::atomic<std::uint64_t> grown_ahead = 0;
    std::atomic<std::uint64_t> failed_ahead = 0;
    std::atomic<unsigned> failed_in_row = 0;
    std::atomic<std::uint64_t> requests_to_skip = 0;
    CachingAllocator allocator;
  };
  static constexpr std::size_t kDevicesMax = 64;
  /// One for each device's node, one without a node, and one for write-combined memory.
  static constexpr std::size_t kHeapsMax = kDevicesMax + 2;

  void* allocate_slow(std::size_t bytes, const PinnedOptions& options);
  /// Notifies the simulated driver that memory has a new user.
  void notify_simulator(const void* data, std::size_t bytes) const {
    driver().sim_host_reuses(data, bytes);
  }
  /// Frees the block unless the heap `freed` has done so. Returns its heap; null in a forked child.
  Heap* free_in_heap(void* data, Heap* freed);
  /// Errors  InvalidArgument: no such device or kind. NotSupported: a forked child. DriverError.
  Heap& heap_for(const PinnedOptions& options);
  /// Whether devices are near different nodes.
  bool differs() BERTH_EXCLUDES(mutex_);
  /// The nodes of the devices by logical ordinal, read once.
  const std::vector<std::optional<int>>& nodes() BERTH_REQUIRES(mutex_);
  Heap& find_or_make(PinnedKind kind, std::optional<int> node) BERTH_REQUIRES(mutex_);
  /// Calls visit(Heap&) for each.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t number = 0; number < count; ++number) visit(*heaps_[number]);
  }
  /// The heap that has memory at `data`, live or not, or null.
  [[nodiscard]] Heap* owner_of(const void* data) const;
  /// The same.
  /// Errors  InvalidArgument: there is none; `action` is not possible for `data`.
  [[nodiscard]] Heap& require_owner(void* data, const char* action) const;
  std::size_t release_others(const Heap& asking, std::size_t bytes,
                             CachingAllocator::HostWait wait);
  void request_growth(Heap& heap) noexcept;
  /// If more may be cached than the limit allows, the background thread will return it: a thread
  /// that frees may be the one to open a gate, and the driver may wait for the devices. `freed`:
  /// the heap of the free; null: no effect.
  void request_return(Heap* freed) noexcept;
  /// Waits for launches of graphs, or on streams, that were destroyed since.
  void wait_for_launches() noexcept;
  /// The work of the background thread.
  void run_in_background() noexcept;
  void grow_ahead(Heap& heap) noexcept;
  void note_failure(Heap& heap, std::string_view why) noexcept;
  [[nodiscard]] bool may_exceed_cache(Heap& freed);
  /// Returns the memory that is cached beyond the limit. `freed`: the heap of the last free.
  void return_excess(Heap& freed) noexcept;

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  const PinnedAllocatorOptions options_;
  const std::size_t bytes_cached_max_;
  const DeviceEventPools events_;
  const bool is_simulated_;  ///< the driver is simulated
  MemoryBudget budget_;
  PinnedRegistrations registrations_;
  Mutex mutex_;
  std::optional<std::vector<std::optional<int>>> nodes_ BERTH_GUARDED_BY(mutex_);
  std::array<std::unique_ptr<Heap>, kHeapsMax> heaps_;  ///< written under mutex_, then never again
  std::atomic<std::size_t> count_ = 0;                  ///< of heaps_
  enum class Differs : std::uint8_t { unknown, no, yes };
  std::atomic<Differs> differs_ = Differs::unknown;
  std::array<std::atomic<Heap*>, kDevicesMax> near_{};  ///< by logical ordinal, if known
  std::atomic<Heap*> only_ = nullptr;  ///< the heap of portable memory, if there is only one
  /// Cached bytes at the last attempt that could not return enough.
  std::atomic<std::size_t> stuck_bytes_ = 0;
  /// The heap whose cache the background thread will limit; null: not requested.
  std::atomic<Heap*> limits_cache_of_ = nullptr;
  BackgroundThread background_;  ///< last, so that it ends first
};

}  // namespace berth
