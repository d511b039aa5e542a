// SPDX-License-Identifier: Apache-2.0
// The pools that PyTorch names, for CUDA graphs, and the requests that are routed to them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "berth/device_allocator.hpp"
#include "berth/memory_pool.hpp"

#include "full/memory_functions.hpp"

namespace berth::torch {

/// The pool of PyTorch that a memory pool of this name is, with the device or without it; {0, 0} if
/// it is none.
PoolId pool_id_of(std::string_view name);

/// Threads  Every function from any thread. Filters are called without a lock.
/// Fork     In a child, retain() and begin() throw NotSupported, and the others have no effect.
class Pools {
 public:
  Pools();

  [[nodiscard]] bool is_child() const noexcept;
  /// Whether any route exists: what every request asks.
  [[nodiscard]] bool has_routes() const noexcept {
    return route_count_.load(std::memory_order_relaxed) != 0;
  }
  /// The pool that serves requests of the device on the stream, if one does.
  [[nodiscard]] std::optional<MemoryPool> find(int device, CUstream_st* stream) const;

  void retain(int device, PoolId id, DeviceAllocator& memory);
  void begin(int device, PoolId id, StreamFilter filter, DeviceAllocator& memory);
  /// 0: no such pool.
  [[nodiscard]] int uses(int device, PoolId id) const;
  void reset_peaks(int device);
  // Throw InvalidArgument: no such route, no such pool.
  /// The streams whose requests took the route.
  std::vector<CUstream_st*> end(int device, PoolId id);
  void release(int device, PoolId id);

  /// Throws NotSupported in a child.
  [[nodiscard]] MemoryPool of(int device, PoolId id) const;

  /// The pools whose last use has ended, to be destroyed when the device is idle.
  [[nodiscard]] std::vector<MemoryPool> take_released();

 private:
  struct Pool {
    MemoryPool memory;
    int uses = 0;
  };
  /// Those of the requests that took a route.
  class Streams {
   public:
    void add(CUstream_st* stream);
    [[nodiscard]] std::vector<CUstream_st*> all() const;

   private:
    mutable std::mutex mutex_;
    std::set<CUstream_st*> streams_;
  };
  struct Route {
    int device;
    PoolId id;
    StreamFilter filter;
    MemoryPool pool;
    std::shared_ptr<Streams> streams;
  };
  /// Never changed, so that a request goes through it without a lock.
  using Routes = std::vector<Route>;

  void require_parent() const;
  /// Creates the pool, or counts one more use of it. Under the lock.
  MemoryPool& use(int device, PoolId id, DeviceAllocator& memory);
  void replace(std::shared_ptr<const Routes> routes);

  const pid_t process_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, PoolId>, Pool> pools_;
  std::vector<MemoryPool> released_;
  std::shared_ptr<const Routes> routes_ = std::make_shared<Routes>();
  std::atomic<std::size_t> route_count_ = 0;
};

}  // namespace berth::torch
