// SPDX-License-Identifier: Apache-2.0
// All pools of one device, behind its DeviceAllocator: its own pool, which serves requests that no
// scope routes elsewhere, and the private pools. They share the device's limits, and return cached
// memory to each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/device_allocator.hpp"
#include "berth/memory_pool.hpp"

#include "memory/background_thread.hpp"
#include "memory/pressure_callback.hpp"
#include "pool/device_pool.hpp"
#include "pool/pool_scopes.hpp"
#include "pool/private_pools.hpp"

namespace berth {

/// Checks that do not depend on the device.
/// Errors  InvalidArgument.
void check_options(const DeviceAllocatorOptions& options);

/// Threads  Safe from any thread. No lock is taken in a forked child, because a thread of the
///          parent may have held it.
class DeviceMemory final : public StreamObserver {
 public:
  DeviceMemory(DeviceContext& context, EventPool& events, DeviceAllocatorOptions options);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(std::size_t bytes, StreamRef stream) {
    if (scopes_.any()) [[unlikely]]
      return allocate_in_scope(bytes, stream);
    return own_.allocate(bytes, stream);
  }
  void deallocate(void* data) {
    if (own_.allocator().try_cache_free(data)) [[likely]]
      return;
    deallocate_slow(data);
  }
  void deallocate(void* data, StreamRef user) {
    if (&user.context() == &context_ && own_.allocator().try_cache_free(data, user)) [[likely]]
      return;
    deallocate_used(data, user);
  }
  void record_stream(void* data, StreamRef stream);
  void record_use(void* data, StreamRef stream);
  std::size_t trim(std::size_t bytes_to_keep);
  std::size_t release_unused(std::chrono::nanoseconds age);
  void retire_stream(StreamRef stream) noexcept { own_.retire_stream(stream); }
  /// For the scopes; pools are observers of their own.
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override {
    if (is_usable()) scopes_.retire_stream(StreamRef(context, stream));
  }
  [[nodiscard]] bool owns(const void* data) const;
  [[nodiscard]] bool is_for_graphs(const void* data) const;
  /// The live block of any pool.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data);
  /// Of the live block of any pool.
  /// Errors  As find().
  [[nodiscard]] std::optional<MemoryProperties> properties(const void* data);
  void validate() const;
  void set_limits(const MemoryLimits& limits);
  void set_on_pressure(PressureCallback callback) {
    own_.require_usable();
    pressure_.set(std::move(callback));
  }

  [[nodiscard]] DevicePool& own() { return own_; }
  [[nodiscard]] const DevicePool& own() const { return own_; }
  /// Open and closed pools.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> private_pools() const;

  /// Errors  InvalidArgument: a name that is not accepted. DriverError.
  std::shared_ptr<DevicePool> open(const MemoryPoolOptions& options);
  /// Contract: PrivatePools.
  void attach(const DevicePool& pool, std::shared_ptr<DevicePool>& handle) noexcept {
    private_.attach(pool, handle);
  }
  void close(DevicePool& pool) noexcept;
  /// Returns the number of the scope.
  /// Errors  NotSupported: in a forked child.
  std::uint64_t open_scope(const PoolScopes::Extent& extent, std::shared_ptr<DevicePool> pool);
  void close_scope(std::uint64_t number) noexcept;

  /// All pools of that name. Contracts: DeviceAllocator.
  std::size_t sleep(std::string_view name, SleepContent content);
  void wake(std::string_view name);
  /// Not in a forked child.
  [[nodiscard]] bool is_usable() const { return own_.is_usable(); }

 private:
  // Not inline, so that the fast path saves no registers.
  [[gnu::noinline]] void* allocate_in_scope(std::size_t bytes, StreamRef stream);
  [[gnu::noinline]] void deallocate_slow(void* data);
  [[gnu::noinline]] void deallocate_used(void* data, StreamRef user);
  template <class Use>
  void with_pool_of(void* data, const Use& use);
  void release_in_background(std::chrono::nanoseconds age) noexcept;
  [[nodiscard]] DevicePool::Setup setup();
  void end_open_pools() noexcept;
  std::size_t release_others(const DevicePool& asking, std::size_t bytes,
                             CachingAllocator::HostWait wait);
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> named(std::string_view name) const;

  DeviceContext& context_;
  EventPool& events_;
  const DeviceAllocatorOptions options_;
  PressureHook pressure_;
  const PressureCallback on_pressure_;  ///< calls it
  const std::size_t device_bytes_;
  MemoryBudget budget_;
  DevicePool own_;
  PrivatePools private_;
  PoolScopes scopes_;
  std::optional<BackgroundThread> background_;  ///< last, so that it ends first
};

}  // namespace berth
