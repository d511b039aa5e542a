// SPDX-License-Identifier: Apache-2.0
// The caching allocator of one device.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/cross_stream_reuse.hpp"
#include "berth/error.hpp"
#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/memory_limits.hpp"
#include "berth/memory_pool.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Blocks are multiples of this many bytes and aligned to it, as cuMemAlloc's widest users expect.
inline constexpr std::size_t kBlockBytes = 512;

struct DeviceAllocatorOptions {
  /// Of the device's allocator and its private pools together.
  MemoryLimits limits = {};

  /// Memory of the device that stays free for others: for libraries and processes beside berth.
  /// Growth that would leave less, by the driver's count, is refused. 0: none, and the driver is
  /// not asked.
  MemoryAmount headroom_bytes = 0;

  /// Cached memory that was not used for so long is given back by a thread of berth's; nullopt:
  /// never, and there is no such thread. At least 1 ms.
  std::optional<std::chrono::milliseconds> release_unused_after = std::nullopt;

  /// What a request may have of memory that other streams have freed: in the device's allocator and
  /// in its private pools.
  CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;

  /// Whether memory is mapped granule by granule into one address range, which grows and shrinks
  /// without fragmenting. false, or a device that cannot: segments from cuMemAlloc.
  bool virtual_memory = true;

  /// Physical memory is obtained in multiples of this; 0: the device's minimum, usually 2 MiB.
  /// Otherwise a power of two, at least that minimum.
  std::size_t granule_bytes = 0;

  /// Without virtual memory: requests below half of this share segments of this size, others get
  /// one of their own. At least 2 MiB.
  std::size_t segment_bytes = std::size_t{20} << 20;

  /// Called when memory is short and berth has nothing left to give back without waiting for the
  /// GPU on the host, with the bytes that are missing (what goes beyond a limit, and at most the size
  /// of the request): frees or spills what it can (a framework's own caches) and returns whether it
  /// freed anything. The request is tried again then. For one request this is called again only where
  /// blocks were freed, or other memory was found, since the last call.
  ///
  /// Called without a lock, on the thread that needs memory, so on several threads at once if several
  /// do. May call this allocator: an allocation inside it, from any pool of the device, that runs
  /// short does not call it again. An exception of its own passes through allocate(), and the
  /// allocator is as before then; try_allocate() returns it as OutOfMemory with its text.
  std::function<bool(std::size_t bytes_needed)> on_pressure = nullptr;
};

/// The memory of one device. What it hands out comes from a pool of its own, unless a PoolScope sends
/// the request to a private pool; blocks of private pools may be freed here, too. Counters and
/// snapshot are those of the pool of its own; limits and trim() are of all pools of the device.
class BERTH_API DeviceAllocator final : public Allocator {
 public:
  /// `events` serves the events that order streams; both must outlive the allocator.
  /// Errors  InvalidArgument: an option out of range.
  DeviceAllocator(DeviceContext& context, EventPool& events, DeviceAllocatorOptions options);
  /// Gives everything back to the driver, after the device's work is done. Live blocks are reported
  /// to the report sink; their memory is given back too.
  ~DeviceAllocator() override;

  /// Device memory that is ordered on `stream`.
  ///
  /// Units     `bytes` as needed; 0 gives an empty Allocation. Rounded up to kBlockBytes.
  /// Stream    Work submitted to `stream` from now on may use the memory. Its content is undefined.
  /// Blocking  A block cached for the stream: no driver call. Otherwise the out-of-memory ladder
  ///           (docs/architecture.md), whose last rungs wait for the GPU, under no lock; no rung
  ///           holds a lock that a cache hit needs during a driver call.
  /// Errors    InvalidArgument: a stream of another device. OutOfMemory: with every number that
  ///           explains it. DriverError: the driver failed otherwise. What on_pressure throws. The
  ///           allocator is as before then, but for cached memory given back.
  [[nodiscard]] Allocation allocate(std::size_t bytes, StreamRef stream) {
    return {*this, allocate_raw(bytes, stream), bytes};
  }
  /// The same for callers that probe; never throws. An exception of on_pressure that is no Error is
  /// returned as OutOfMemory with its text.
  Result<Allocation> try_allocate(std::size_t bytes, StreamRef stream) noexcept;
  /// The same without an owner: free with deallocate(). null for 0 bytes.
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream);

  void deallocate(void* data) override;
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// Changes DeviceAllocatorOptions::limits. Memory already reserved beyond them stays until it is
  /// trimmed.
  void set_limits(const MemoryLimits& limits);

  /// A private pool of the device's memory.
  /// Errors  InvalidArgument: a name that is not accepted. DriverError: no address space.
  [[nodiscard]] MemoryPool create_pool(const MemoryPoolOptions& options);
  /// MemoryPool::sleep() and wake() of all pools of that name. Where one of them fails to fall asleep,
  /// those before it are woken; where one fails to wake, those before it are awake.
  /// Errors  InvalidArgument: no pool of that name.
  std::size_t sleep(std::string_view name, SleepContent content = SleepContent::discard);
  void wake(std::string_view name);
  /// Of each private pool, closed ones with live blocks included, oldest first.
  [[nodiscard]] std::vector<MemorySnapshot> pool_snapshots() const;

  /// Whether `data` points into memory of this allocator, live or not. No driver call.
  [[nodiscard]] bool owns(const void* data) const noexcept;
  /// Whether `data` points into memory of an open pool for graphs (MemoryPoolOptions::for_graphs), live or
  /// not. No driver call.
  [[nodiscard]] bool is_for_graphs(const void* data) const noexcept;

  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

 private:
  std::unique_ptr<DevicePools> pools_;
};

}  // namespace berth
