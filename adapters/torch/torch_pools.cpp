// SPDX-License-Identifier: Apache-2.0
#include "torch/torch_pools.hpp"

#include <algorithm>
#include <string>
#include <unistd.h>

#include "berth/error.hpp"

namespace berth::torch {
namespace {

std::string text_of(PoolId id) {
  return std::to_string(id.first) + "." + std::to_string(id.second);
}

[[noreturn]] void refuse(const char* what, int device, PoolId id) {
  throw InvalidArgument(std::string(what) + " pool " + text_of(id) +
                        " of cuda:" + std::to_string(device));
}

}  // namespace

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
  return route->pool;
}

void Pools::begin(int device, PoolId id, StreamFilter filter, DeviceAllocator& memory) {
  if (is_child()) throw NotSupported("a child made by fork() cannot use pools of its parent");
  const std::lock_guard lock(mutex_);
  auto known = pools_.find({device, id});
  if (known == pools_.end()) {
    const MemoryPoolOptions options{
        .name = "torch " + text_of(id), .limits = {}, .for_graphs = true};
    known = pools_.insert({{device, id}, {memory.create_pool(options)}}).first;
  }
  auto routes = std::make_shared<Routes>(*routes_);
  routes->push_back({device, id, std::move(filter), known->second.memory});
  ++known->second.uses;
  replace(std::move(routes));
}

void Pools::end(int device, PoolId id) {
  if (is_child()) return;
  std::shared_ptr<const Routes> before;  // filters are destroyed without the lock
  const std::lock_guard lock(mutex_);
  auto routes = std::make_shared<Routes>(*routes_);
  const auto route = std::find_if(routes->rbegin(), routes->rend(), [&](const Route& candidate) {
    return candidate.device == device && candidate.id == id;
  });
  if (route == routes->rend()) refuse("no requests are routed to", device, id);
  routes->erase(std::prev(route.base()));
  before = routes_;
  replace(std::move(routes));
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
