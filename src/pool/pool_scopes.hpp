// SPDX-License-Identifier: Apache-2.0
// The scopes that route requests of a thread or on a stream to a private pool, while a PoolScope
// exists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/stream.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "memory/order/stream_table.hpp"
#include "pool/device_pool.hpp"

namespace berth {

/// Threads  Safe from any thread.
class PoolScopes {
 public:
  /// A number of the calling thread that is never reused, unlike the id of std::thread.
  static std::uint64_t this_thread() {
    static std::atomic<std::uint64_t> last = 0;
    thread_local const std::uint64_t number = ++last;
    return number;
  }
  /// The requests that a scope covers: those of one thread, or those on one stream.
  struct Extent {
    std::uint64_t thread = this_thread();
    std::optional<CUstream_st*> stream = std::nullopt;  ///< handle_of()
  };

  /// Returns the number of the scope, for close(); never 0.
  std::uint64_t open(const Extent& extent, std::shared_ptr<DevicePool> pool) {
    const MutexLock lock(mutex_);
    scopes_.push_back({++last_number_, extent, std::move(pool)});
    count_.store(scopes_.size(), std::memory_order_relaxed);
    return last_number_;
  }
  void close(std::uint64_t number) {
    const MutexLock lock(mutex_);
    const std::size_t closed =
        std::erase_if(scopes_, [number](const Scope& scope) { return scope.number == number; });
    BERTH_CHECK(closed == 1);
    count_.store(scopes_.size(), std::memory_order_relaxed);
  }

  /// Scopes on the stream cover no requests from now on.
  void retire_stream(StreamRef stream) noexcept {
    if (!any()) return;
    const MutexLock lock(mutex_);
    for (Scope& scope : scopes_) {
      scope.is_retired = scope.is_retired || scope.extent.stream == handle_of(stream);
    }
  }

  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  /// The pool of the last opened scope that covers a request of the calling thread on `stream`, or
  /// null.
  [[nodiscard]] std::shared_ptr<DevicePool> find(StreamRef stream) const {
    const MutexLock lock(mutex_);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->is_retired) continue;
      const bool covers = scope->extent.stream ? *scope->extent.stream == handle_of(stream)
                                               : scope->extent.thread == this_thread();
      if (covers) return scope->pool;
    }
    return nullptr;
  }

 private:
  struct Scope {
    std::uint64_t number;
    Extent extent;
    std::shared_ptr<DevicePool> pool;
    bool is_retired = false;  ///< its stream has ended; a later one may have its handle
  };

  mutable Mutex mutex_;
  std::vector<Scope> scopes_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t last_number_ BERTH_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> count_ = 0;  ///< of scopes_
};

}  // namespace berth
