// SPDX-License-Identifier: Apache-2.0
#include "memory/thread_cache.hpp"

namespace berth {

FrontCache* ThreadCache::find_owner(OwnerId owner) const {
  for (const auto& front : fronts_) {
    if (front->owner() == owner) return front.get();
  }
  return nullptr;
}

FrontCache& ThreadCache::add_owner(OwnerId owner) {
  FrontCache* front = find_owner(owner);
  if (front == nullptr) front = fronts_.emplace_back(std::make_unique<FrontCache>(owner)).get();
  by_owner_[owner % kRoutes] = front;
  return *front;
}

void ThreadCache::add_route(OwnerId owner, StreamKey stream) {
  by_stream_[place_of(stream)] = {stream, &add_owner(owner)};
}

void ThreadCache::forget(OwnerId owner) {
  recent_ = {};
  last_ = {};
  for (Route& route : by_stream_) {
    if (route.front != nullptr && route.front->owner() == owner) route = {};
  }
  for (FrontCache*& front : by_owner_) {
    if (front != nullptr && front->owner() == owner) front = nullptr;
  }
  std::erase_if(fronts_, [&](const auto& front) { return front->owner() == owner; });
}

}  // namespace berth
