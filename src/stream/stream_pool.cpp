// SPDX-License-Identifier: Apache-2.0
#include "berth/stream_pool.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

struct PooledStream {
  Stream stream;
  std::size_t leases;
};

/// The streams of one priority. `idle` holds the indexes of those without a lease, last in first
/// out, and has room for all, so that giving back cannot fail.
struct PriorityPool {
  std::vector<PooledStream> streams;
  std::vector<std::size_t> idle;
  std::size_t being_created = 0;
};

}  // namespace

struct StreamPool::State {
  DeviceContext& context;
  const StreamPoolOptions options;
  mutable Mutex mutex{};
  std::map<int, PriorityPool> pools BERTH_GUARDED_BY(mutex){};

  std::once_flag priority_known{};
  int priority_min = 0;  ///< of the device's range; once priority_known

  int clamp_priority(int priority);
  std::optional<StreamRef> take(PriorityPool& pool) BERTH_REQUIRES(mutex);
  StreamRef create(int priority) BERTH_EXCLUDES(mutex);
};

/// An idle stream, or past the bound a shared one; none where one more may be created.
std::optional<StreamRef> StreamPool::State::take(PriorityPool& pool) {
  if (!pool.idle.empty()) {
    PooledStream& pooled = pool.streams[pool.idle.back()];
    pool.idle.pop_back();
    pooled.leases = 1;
    return pooled.stream.ref();
  }
  const bool may_create = pool.streams.size() + pool.being_created < options.streams_max;
  if (may_create || pool.streams.empty()) return std::nullopt;
  PooledStream& shared = *std::min_element(
      pool.streams.begin(), pool.streams.end(),
      [](const PooledStream& a, const PooledStream& b) { return a.leases < b.leases; });
  ++shared.leases;
  return shared.stream.ref();
}

/// Priorities below the device's range are the lowest number in it, as the driver would have it.
int StreamPool::State::clamp_priority(int priority) {
  if (priority == 0) return 0;
  std::call_once(priority_known, [this] {
    const ContextScope scope(context);
    int least = 0;
    context.driver().ctx_get_stream_priority_range(&least, &priority_min);
  });
  return std::max(priority, priority_min);
}

/// Adds a leased stream. The driver call is made without the lock; being_created holds its place.
StreamRef StreamPool::State::create(int priority) {
  std::optional<Stream> created;
  const auto settle = [&]() BERTH_REQUIRES(mutex) -> PriorityPool& {
    PriorityPool& pool = pools[priority];
    --pool.being_created;
    return pool;
  };
  try {
    created.emplace(context, StreamOptions{.priority = priority});
  } catch (...) {
    const MutexLock lock(mutex);
    settle();
    throw;
  }
  const MutexLock lock(mutex);
  PriorityPool& pool = settle();
  pool.idle.reserve(pool.streams.size() + 1);
  pool.streams.push_back({std::move(*created), 1});
  return pool.streams.back().stream.ref();
}

StreamPool::StreamPool(DeviceContext& context, StreamPoolOptions options)
    : state_(new State{context, options}) {
  if (options.streams_max == 0) {
    throw InvalidArgument("StreamPoolOptions::streams_max is 0; accepted: 1 or more");
  }
}

StreamPool::~StreamPool() = default;

Lease<StreamPool> StreamPool::acquire(int asked_priority) {
  const int priority = state_->clamp_priority(asked_priority);
  {
    const MutexLock lock(state_->mutex);
    if (const std::optional<StreamRef> pooled = state_->take(state_->pools[priority])) {
      return {*this, *pooled};
    }
    ++state_->pools[priority].being_created;
  }
  return {*this, state_->create(priority)};
}

void StreamPool::give_back(StreamRef stream) noexcept {
  const MutexLock lock(state_->mutex);
  bool found = false;
  for (auto& [priority, pool] : state_->pools) {
    for (std::size_t index = 0; index < pool.streams.size(); ++index) {
      PooledStream& pooled = pool.streams[index];
      if (!(pooled.stream.ref() == stream)) continue;
      found = true;
      BERTH_CHECK(pooled.leases > 0);
      if (--pooled.leases == 0) pool.idle.push_back(index);
    }
  }
  BERTH_CHECK(found);
}

std::size_t StreamPool::streams_created() const {
  const MutexLock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [priority, pool] : state_->pools) count += pool.streams.size();
  return count;
}

std::size_t StreamPool::leases_live() const {
  const MutexLock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [priority, pool] : state_->pools) {
    for (const PooledStream& pooled : pool.streams) count += pooled.leases;
  }
  return count;
}

}  // namespace berth
