// SPDX-License-Identifier: Apache-2.0
// The pools that PyTorch names, for CUDA graphs, and the requests that are routed to them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "berth/device_allocator.hpp"
#include "berth/memory_pool.hpp"

namespace berth::torch {

/// As PyTorch numbers pools.
using PoolId = std::pair<unsigned long long, unsigned long long>;
using StreamFilter = std::function<bool(CUstream_st*)>;

/// Threads  Every function from any thread. Filters are called without a lock.
/// Fork     In a child, begin() throws NotSupported, and the others have no effect.
class Pools {
 public:
  Pools();

  /// Whether any route exists: what every request asks.
  [[nodiscard]] bool has_routes() const noexcept {
    return route_count_.load(std::memory_order_relaxed) != 0;
  }
  /// The pool that serves requests of the device on the stream, if one does.
  [[nodiscard]] std::optional<MemoryPool> find(int device, CUstream_st* stream) const;

  void begin(int device, PoolId id, StreamFilter filter, DeviceAllocator& memory);
  /// Throws InvalidArgument: no such route, no such pool.
  void end(int device, PoolId id);
  void release(int device, PoolId id);

  /// The pools whose last use has ended, to be destroyed when the device is idle.
  [[nodiscard]] std::vector<MemoryPool> take_released();

 private:
  struct Pool {
    MemoryPool memory;
    int uses = 0;
  };
  struct Route {
    int device;
    PoolId id;
    StreamFilter filter;
    MemoryPool pool;
  };
  /// Never changed, so that a request goes through it without a lock.
  using Routes = std::vector<Route>;

  [[nodiscard]] bool is_child() const noexcept;
  void replace(std::shared_ptr<const Routes> routes);

  const pid_t process_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, PoolId>, Pool> pools_;
  std::vector<MemoryPool> released_;
  std::shared_ptr<const Routes> routes_ = std::make_shared<Routes>();
  std::atomic<std::size_t> route_count_ = 0;
};

}  // namespace berth::torch
