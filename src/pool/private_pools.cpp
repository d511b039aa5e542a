// SPDX-License-Identifier: Apache-2.0
#include "pool/private_pools.hpp"

#include <algorithm>

namespace berth {

void PrivatePools::add(std::shared_ptr<DevicePool> pool) {
  const MutexLock lock(mutex_);
  entries_.push_back({std::move(pool)});
  count_.store(entries_.size(), std::memory_order_relaxed);
}

void PrivatePools::close(const DevicePool& pool) {
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_) entry.closed = entry.closed || entry.pool.get() == &pool;
}

std::size_t PrivatePools::clean_up() {
  std::size_t released = 0;
  for (const auto& pool : in_state(true)) {
    pool->allocator().close();  // an earlier close may have failed
    released += pool->trim(0);
    if (!pool->allocator().is_empty()) continue;
    const MutexLock lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.pool == pool; });
    count_.store(entries_.size(), std::memory_order_relaxed);
  }
  return released;
}

std::vector<std::shared_ptr<DevicePool>> PrivatePools::in_state(bool closed) const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<DevicePool>> pools;
  for (const Entry& entry : entries_) {
    if (entry.closed == closed) pools.push_back(entry.pool);
  }
  return pools;
}

std::vector<std::shared_ptr<DevicePool>> PrivatePools::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<DevicePool>> pools;
  for (const Entry& entry : entries_) pools.push_back(entry.pool);
  return pools;
}

std::shared_ptr<DevicePool> PrivatePools::find(const void* data) const {
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.pool->owns(data)) return entry.pool;
  }
  return nullptr;
}

}  // namespace berth
