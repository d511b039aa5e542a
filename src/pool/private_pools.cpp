// SPDX-License-Identifier: Apache-2.0
#include "pool/private_pools.hpp"

#include <algorithm>
#include <exception>

#include "base/check.hpp"

namespace berth {

void PrivatePools::add(std::shared_ptr<DevicePool> pool) {
  const MutexLock lock(mutex_);
  entries_.push_back({std::move(pool)});
  count_.store(entries_.size(), std::memory_order_relaxed);
}

void PrivatePools::attach(const DevicePool& pool, std::shared_ptr<DevicePool>& handle) noexcept {
  const MutexLock lock(mutex_);
  open_entry(pool).handle = &handle;
}

void PrivatePools::detach_handles() noexcept {
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.closed || entry.handle == nullptr) continue;
    entry.handle->reset();  // the entry keeps the pool
    entry.handle = nullptr;
  }
}

void PrivatePools::close(const DevicePool& pool) {
  const MutexLock lock(mutex_);
  Entry& entry = open_entry(pool);
  entry.closed = true;
  entry.handle = nullptr;
}

PrivatePools::Entry& PrivatePools::open_entry(const DevicePool& pool) {
  const auto entry = std::ranges::find(entries_, &pool, [](const Entry& each) {
    return static_cast<const DevicePool*>(each.pool.get());
  });
  BERTH_CHECK(entry != entries_.end() && !entry->closed);  // open pools are listed, closed once
  return *entry;
}

std::size_t PrivatePools::clean_up() {
  std::size_t released = 0;
  std::exception_ptr failure;
  for (const auto& pool : in_state(true)) {
    try {
      pool->allocator().close();  // an earlier close may have failed
      released += pool->trim(0);
      if (!pool->allocator().is_empty()) continue;
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
      continue;
    }
    const MutexLock lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.pool == pool; });
    count_.store(entries_.size(), std::memory_order_relaxed);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
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
