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
#include "berth/mapped_range.hpp"
#include "berth/memory_limits.hpp"
#include "berth/memory_pool.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Options of a DeviceAllocator.
struct DeviceAllocatorOptions {
  /// For the device's allocator and its private pools together.
  MemoryLimits limits = {};

  /// Device memory that stays free for other libraries and processes. Growth that would leave less,
  /// according to the driver, is refused. 0: none, and the driver is not queried.
  MemoryAmount headroom_bytes = 0;

  /// A berth thread returns cached memory that was unused for this time to the driver, within 1.25
  /// times this time. At least 1 ms. nullopt: memory is never returned in this way, and there is no
  /// such thread.
  std::optional<std::chrono::milliseconds> release_unused_after = std::nullopt;

  /// Which memory freed on other streams may serve a request, in the device's allocator and in its
  /// private pools.
  CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;

  /// true: memory is mapped granule by granule into one address range, which grows and shrinks
  /// without fragmentation. false, or if the device does not support it: segments come from
  /// cuMemAlloc.
  bool virtual_memory = true;

  /// Physical memory is obtained in multiples of this size. 0: the device's minimum, usually 2 MiB.
  /// Otherwise a power of two from that minimum to 2 GiB, and no more than the device's memory.
  std::size_t granule_bytes = 0;

  /// For contiguous pools (MemoryPoolOptions::contiguous), and for all memory without virtual
  /// memory: requests below half of this size share segments of this size, and each other request
  /// gets its own segment. If a limit, the headroom or the driver leaves no room for a shared
  /// segment, a request gets a segment of its own size, rounded up to the granule. At least 2 MiB;
  /// more than the device's memory counts as that.
  std::size_t segment_bytes = std::size_t{20} << 20;

  /// Called when memory is short and berth cannot return more without making the host wait for the
  /// GPU. `bytes_needed` is the missing amount: the amount beyond a limit, at most the size of the
  /// request. The callback frees or spills memory (a framework's own caches) and returns whether it
  /// freed memory. The request is then tried again. For one request, the callback is called again
  /// only if blocks were freed, or other memory was found, since the last call. null: there is no
  /// callback.
  ///
  /// It is called without a lock, on the thread that needs memory, so possibly on several threads
  /// concurrently. It may call this allocator: if an allocation inside it runs short, from any pool
  /// of the device, the callback is not called again. An exception that it throws passes through
  /// allocate(), and the allocator is then unchanged; try_allocate() returns it as OutOfMemory with
  /// its text. DeviceAllocator::set_on_pressure() replaces it later.
  std::function<bool(std::size_t bytes_needed)> on_pressure = nullptr;

  /// Called when memory of the allocator, or of a private pool, has been mapped, before any block
  /// in it is handed out; and before it is unmapped, when no block is left in it, its work is done,
  /// or its pool falls asleep. For libraries that register memory by address, such as UCX, NCCL and
  /// NIXL. Memory that another process shares (SharedBlock) is not announced. null: no callback.
  /// Memory   Every mapped byte is passed to on_map once, and to on_unmap once before its unmap,
  ///          whatever fails in between. on_unmap may get a part of a range of on_map, or several
  ///          ranges in one call, always whole pieces; in contiguous pools it gets the same ranges.
  ///          If the driver refuses to unmap memory that stays in use, on_map is called again. If
  ///          that throws, the exception is reported, and the memory stays unused until a later
  ///          growth, which calls on_map again.
  /// Errors   Inside a callback, these functions throw InvalidArgument on every DeviceAllocator,
  ///          MemoryPool and PinnedAllocator, even if they would have no effect: allocations that
  ///          cached memory does not serve, trim(), release_unused(), sleep(), wake(),
  ///          create_pool(), checkpoint(), restore(), snapshot(), pool_snapshots() and validate();
  ///          record_use() if no event is left (EventPoolOptions). So do Runtime::statistics(), and
  ///          Runtime::enable_peer_access() for new access. All other functions work there. An
  ///          exception of on_map passes through allocate() or wake(): the range is unmapped again
  ///          without on_unmap, and the allocator is unchanged, the pool still asleep. An exception
  ///          of on_unmap is reported, and the memory is unmapped.
  /// Threads  Called on the thread that needs or returns memory, which may be a berth thread, with
  ///          the device's context current, and under a lock of the pool that other threads need to
  ///          obtain or return memory. A pool that is closed inside a callback keeps its memory
  ///          until the next call that returns memory. The freed memory of a stream that is
  ///          destroyed inside a callback is reused once the device is idle. Both are reported.
  MappingCallback on_map = nullptr;
  MappingCallback on_unmap = nullptr;
};

/// The caching allocator of one device's memory. Requests are served from its own pool, unless a
/// PoolScope routes them to a private pool. Blocks of private pools may be freed here, too.
/// Counters and snapshot cover the device's own pool; limits, trim() and release_unused() apply to
/// all pools of the device.
/// Threads  As Allocator.
class BERTH_API DeviceAllocator final : public Allocator {
 public:
  /// `events` provides the events that order streams. `context` and `events` must outlive the
  /// allocator.
  /// Errors  InvalidArgument: an option out of range.
  DeviceAllocator(DeviceContext& context, EventPool& events, DeviceAllocatorOptions options);
  /// Returns all memory to the driver after the device's work is done. Live blocks are reported to
  /// the report sink, and their memory is returned too.
  ~DeviceAllocator() override;

  /// Allocates device memory that is ordered on `stream`.
  ///
  /// Units     `bytes` is the requested size, which is rounded up to kBlockAlignment; 0 gives an
  ///           empty Allocation.
  /// Stream    Work submitted to `stream` from now on may use the memory. Its content is undefined.
  ///           While `stream` is captured, allocate from a pool for graphs
  ///           (MemoryPoolOptions::for_graphs), directly or through a PoolScope. Outside of one, a
  ///           request that needs more than cached memory throws. A request that cached memory
  ///           serves is not detected, because a hit makes no driver call: once the block is freed,
  ///           its next users race with each launch of the graph.
  /// Blocking  A block cached for the stream needs no driver call. Otherwise the request takes the
  ///           rungs of the out-of-memory ladder (docs/life_of_an_allocation.md), whose last rungs
  ///           wait for the GPU without a lock. No driver call is made under a lock that a cache
  ///           hit needs.
  /// Errors    InvalidArgument: a stream of another device, the per-thread default stream, or a
  ///           captured one, as above. OutOfMemory: with every number that explains it.
  ///           DriverError: another driver failure. Exceptions of on_pressure. The allocator is
  ///           then unchanged, except that cached memory may have been returned.
  [[nodiscard]] Allocation allocate(std::size_t bytes, StreamRef stream) {
    return {*this, allocate_raw(bytes, stream), bytes, stream};
  }
  /// Like allocate(), but never throws. An exception of on_pressure that is not an Error is
  /// returned as OutOfMemory with its text.
  Result<Allocation> try_allocate(std::size_t bytes, StreamRef stream) noexcept;
  /// Like allocate(), but without an owner: free the block with deallocate(). null for 0 bytes.
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream) override;

  /// Contracts of these functions: Allocator.
  [[nodiscard]] Device device() const noexcept override;
  void deallocate(void* data) override;
  /// record_use(data, user) and deallocate(data) in one call, for callers that do not know which
  /// stream a block was allocated on: it is reused after the work that `user` holds now. If `user`
  /// is the block's own stream, this costs what deallocate() costs. null: no effect.
  /// Errors  Those of both. The block is still live then.
  void deallocate(void* data, StreamRef user);
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// Changes DeviceAllocatorOptions::limits. Memory that is reserved beyond the new limits stays
  /// until it is trimmed.
  void set_limits(const MemoryLimits& limits);

  /// Replaces DeviceAllocatorOptions::on_pressure, for the private pools too; null removes it. For
  /// a callback that frees memory of the Runtime: the objects that it uses are created after the
  /// Runtime and destroyed before it. Set the callback after creating them, and remove it before
  /// destroying them.
  /// Blocking  Returns when no call of a former callback is running on another thread, and the
  ///           objects that it held are destroyed. From inside a callback of this allocator,
  ///           returns immediately, and the former callback is destroyed when its last call
  ///           returns.
  /// Errors    NotSupported: in a forked child.
  void set_on_pressure(std::function<bool(std::size_t bytes_needed)> on_pressure);

  /// Creates a private pool of the device's memory.
  /// Blocking  Returns the free memory of closed pools, and waits for the work that used it.
  /// Errors    InvalidArgument: a name that is not accepted, or `fabric` without `contiguous`.
  ///           NotSupported: `fabric`, and the device has no fabric handles. DriverError: no
  ///           address space.
  [[nodiscard]] MemoryPool create_pool(const MemoryPoolOptions& options);
  /// MemoryPool::sleep() and wake() for all open pools of that name. The result of sleep() is the
  /// number of bytes that all of them returned.
  /// Errors  InvalidArgument: no open pool of that name. Those of MemoryPool: if one of the pools
  ///         fails to fall asleep, all are awake with their content; if the driver has refused to
  ///         take back memory of one, all are asleep; if one fails to wake, those before it are
  ///         awake.
  std::size_t sleep(std::string_view name, SleepContent content = SleepContent::discard);
  void wake(std::string_view name);
  /// Snapshots of the private pools, including closed ones with live blocks, oldest first.
  [[nodiscard]] std::vector<MemorySnapshot> pool_snapshots() const;

  /// Whether `data` points into memory of this allocator, live or not. No driver call.
  [[nodiscard]] bool owns(const void* data) const noexcept;
  /// The live block that contains `data`, of this allocator or of a private pool; nullopt if there
  /// is none. No driver call. For a moment, no other thread allocates or frees.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data);
  /// The properties of the live block that contains `data`, of this allocator or of a private pool;
  /// nullopt if there is none. No driver call.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::optional<MemoryProperties> properties(const void* data);
  /// Whether `data` points into memory of an open pool for graphs (MemoryPoolOptions::for_graphs),
  /// live or not. No driver call.
  [[nodiscard]] bool is_for_graphs(const void* data) const noexcept;

  /// Contracts of these functions: Allocator.
  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

 private:
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace berth
