// SPDX-License-Identifier: Apache-2.0
// Private pools of device memory: with a name, limits and a lifetime of their own, apart from what
// the rest of the device uses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "berth/allocator.hpp"
#include "berth/error.hpp"
#include "berth/export.h"
#include "berth/memory_limits.hpp"
#include "berth/stream.hpp"

namespace berth {

class DevicePool;
class DevicePools;

struct MemoryPoolOptions {
  /// What statistics and errors show after the device, "cuda:0/weights". 1 to 64 printable ASCII
  /// characters. Several pools may have the same name: sleep(name) means all of them.
  std::string name;

  /// Of this pool, within those of the device.
  MemoryLimits limits = {};

  /// For memory that CUDA graphs use. A stream that is being captured can allocate, and every
  /// address keeps its memory until the pool is closed: trim() and other pools get none of it. So
  /// keep a MemoryPool with the graph, and close it after the graph's last launch is done. What a
  /// graph uses, each launch of it writes: allocate from such a pool for nothing else, and let graphs
  /// share one only where they are launched one after the other.
  bool for_graphs = false;
};

/// Whether memory keeps its content while a pool is asleep.
enum class SleepContent {
  discard,  ///< content is undefined after wake()
  keep,     ///< live blocks are copied to host memory, and back by wake()
};

/// A pool, made by DeviceAllocator::create_pool(). Copies refer to the same pool, which is closed
/// when the last of them goes: what is free goes back to the driver then, once the work that used it
/// is done. Blocks that are still live stay valid; their memory goes back after they are freed, when
/// memory is trimmed or short, or when a pool is made or closed, which waits for that work. Handles
/// are gone before the DeviceAllocator is. A pool takes address space, not memory, of 33 times the
/// device's size at most: there is room for some fifty on a device of 80 GiB. Where there is less, free
/// memory that lies apart is joined in less of it.
///
/// Threads  Safe from any thread; one object, like a pointer, from one at a time.
class BERTH_API MemoryPool final : public Allocator {
 public:
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = default;
  MemoryPool& operator=(const MemoryPool&) = default;

  /// Contracts of these: DeviceAllocator. A block may be freed through the pool, or through the
  /// device's allocator, which takes longer to find it.
  [[nodiscard]] Allocation allocate(std::size_t bytes, StreamRef stream);
  Result<Allocation> try_allocate(std::size_t bytes, StreamRef stream) noexcept;
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream);
  void deallocate(void* data) override;
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;
  void set_limits(const MemoryLimits& limits);
  [[nodiscard]] bool owns(const void* data) const noexcept;
  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

  /// With the device: "cuda:0/weights".
  [[nodiscard]] const std::string& name() const noexcept;

  /// Gives all physical memory of the pool back to the driver, that of live blocks too. Addresses
  /// stay. Until wake(), memory of the pool must not be used by the device, and allocations fail
  /// with InvalidArgument; frees are fine. Returns the bytes given back; 0 where the pool is asleep.
  /// Not while work of the device is being captured: such a capture is broken.
  /// Blocking  Waits for all work of the device.
  /// Errors    NotSupported: without virtual memory there are no addresses to keep. OutOfMemory: the
  ///           host has no room for the content. DriverError. The pool is awake as before then.
  std::size_t sleep(SleepContent content = SleepContent::discard);
  /// Obtains as much memory again, at the same addresses. No operation where the pool is awake.
  /// Errors  OutOfMemory, DriverError: the pool is asleep as before, its content kept.
  void wake();
  [[nodiscard]] bool is_asleep() const;

 private:
  friend class DeviceAllocator;
  friend class PoolScope;
  struct Reference;
  MemoryPool(DevicePools& device, std::shared_ptr<DevicePool> pool);
  [[nodiscard]] DevicePool& pool() const;

  std::shared_ptr<Reference> reference_;
};

/// While it exists, DeviceAllocator::allocate() of the pool's device serves certain requests from
/// the pool. Of several scopes that a request falls under, that which was made last counts; they may
/// end in any order. While there is any, every allocation of the device looks them up.
/// Moves.
/// Threads  May be made and destroyed on different threads.
class BERTH_API PoolScope {
 public:
  /// Requests of the calling thread.
  [[nodiscard]] static PoolScope on_this_thread(const MemoryPool& pool);
  /// Requests that are ordered on `stream`, whichever thread makes them; none once the stream is gone.
  /// Errors  InvalidArgument: a stream of another device.
  [[nodiscard]] static PoolScope on_stream(const MemoryPool& pool, StreamRef stream);
  ~PoolScope();
  PoolScope(PoolScope&& other) noexcept
      : pool_(other.pool_), number_(std::exchange(other.number_, 0)) {}
  PoolScope& operator=(PoolScope&&) = delete;

 private:
  PoolScope(const MemoryPool& pool, std::optional<StreamRef> stream);

  const MemoryPool pool_;
  std::uint64_t number_;  ///< 0: moved from
};

}  // namespace berth
