// SPDX-License-Identifier: Apache-2.0
#include "torch/torch_pools.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <unistd.h>

#include "berth/error.hpp"

namespace berth::torch {
namespace {

constexpr std::string_view kPrefix = "torch ";

std::string text_of(PoolId id) {
  return std::to_string(id.first) + "." + std::to_string(id.second);
}

[[noreturn]] void refuse(const char* what, int device, PoolId id) {
  throw InvalidArgument(std::string(what) + " pool " + text_of(id) +
                        " of cuda:" + std::to_string(device));
}

}  // namespace

PoolId pool_id_of(std::string_view name) {
  name.remove_prefix(std::min(name.size(), name.find('/') + 1));  // npos + 1 is 0
  if (name.substr(0, kPrefix.size()) != kPrefix) return {};
  name.remove_prefix(kPrefix.size());
  PoolId id;
  const char* const end = name.data() + name.size();
  const char* const dot = std::from_chars(name.data(), end, id.first).ptr;
  if (dot != end) std::from_chars(dot + 1, end, id.second);
  return id;
}

Pools::Pools() : process_(getpid()) {}

bool Pools::is_child() const noexcept {
  return getpid() != process_;
}

std::optional<MemoryPool> Pools::find(int device, CUstream_st* stream) const {
  if (is_child()) return std::nullopt;
  std::shared_ptr<const Routes> routes;
  {
    const std::lock_guard lock(mutex_);
    routes = routes_;
  }
  const auto route = std::find_if(routes->rbegin(), routes->rend(), [&](const Route& candidate) {
    return candidate.device == device && (!candidate.filter || candidate.filter(stream));
  });
  if (route == routes->rend()) return std::nullopt;
  route->streams->add(stream);
  return route->pool;
}

void Pools::require_parent() const {
  if (is_child()) throw NotSupported("a child made by fork() cannot use pools of its parent");
}

MemoryPool& Pools::use(int device, PoolId id, DeviceAllocator& memory) {
  auto known = pools_.find({device, id});
  if (known == pools_.end()) {
    const MemoryPoolOptions options{
        .name = std::string(kPrefix) + text_of(id), .limits = {}, .for_graphs = true};
    known = pools_.insert({{device, id}, {memory.create_pool(options)}}).first;
  }
  ++known->second.uses;
  return known->second.memory;
}

void Pools::retain(int device, PoolId id, DeviceAllocator& memory) {
  require_parent();
  const std::lock_guard lock(mutex_);
  use(device, id, memory);
}

void Pools::begin(int device, PoolId id, StreamFilter filter, DeviceAllocator& memory) {
  require_parent();
  const std::lock_guard lock(mutex_);
  auto routes = std::make_shared<Routes>(*routes_);
  routes->reserve(routes->size() + 1);  // nothing fails once the use is counted
  auto streams = std::make_shared<Streams>();
  routes->push_back({device, id, std::move(filter), use(device, id, memory), std::move(streams)});
  replace(std::move(routes));
}

int Pools::uses(int device, PoolId id) const {
  if (is_child()) return 0;
  const std::lock_guard lock(mutex_);
  const auto known = pools_.find({device, id});
  return known == pools_.end() ? 0 : known->second.uses;
}

void Pools::reset_peaks(int device) {
  if (is_child()) return;
  const std::lock_guard lock(mutex_);
  for (auto& [key, pool] : pools_)
    if (key.first == device) pool.memory.reset_peaks();
}

void Pools::Streams::add(CUstream_st* stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

std::vector<CUstream_st*> Pools::Streams::all() const {
  const std::lock_guard lock(mutex_);
  return {streams_.begin(), streams_.end()};
}

std::vector<CUstream_st*> Pools::end(int device, PoolId id) {
  if (is_child()) return {};
  std::shared_ptr<const Routes> before;  // filters are destroyed without the lock
  const std::lock_guard lock(mutex_);
  auto routes = std::make_shared<Routes>(*routes_);
  const auto route = std::find_if(routes->rbegin(), routes->rend(), [&](const Route& candidate) {
    return candidate.device == device && candidate.id == id;
  });
  if (route == routes->rend()) refuse("no requests are routed to", device, id);
  std::vector<CUstream_st*> streams = route->streams->all();
  routes->erase(std::prev(route.base()));
  before = routes_;
  replace(std::move(routes));
  return streams;
}

MemoryPool Pools::of(int device, PoolId id) const {
  require_parent();
  const std::lock_guard lock(mutex_);
  const auto known = pools_.find({device, id});
  if (known == pools_.end()) refuse("there is no", device, id);
  return known->second.memory;
}

void Pools::release(int device, PoolId id) {
  if (is_child()) return;
  const std::lock_guard lock(mutex_);
  const auto known = pools_.find({device, id});
  if (known == pools_.end()) refuse("there is no", device, id);
  if (--known->second.uses > 0) return;
  released_.push_back(known->second.memory);
  pools_.erase(known);
}

std::vector<MemoryPool> Pools::take_released() {
  if (is_child()) return {};
  const std::lock_guard lock(mutex_);
  return std::exchange(released_, {});
}

void Pools::replace(std::shared_ptr<const Routes> routes) {
  route_count_.store(routes->size(), std::memory_order_relaxed);
  routes_ = std::move(routes);
}

}  // namespace berth::torch
