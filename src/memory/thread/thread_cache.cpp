// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/thread_cache.hpp"

namespace berth {

FrontCache& ThreadCache::add_owner(OwnerId owner) {
  return_last();
  FrontCache& front = fronts_.of(owner);
  by_owner_[owner % kRoutes] = &front;
  return front;
}

void ThreadCache::add_route(OwnerId owner, StreamKey stream) {
  by_stream_[place_of(stream)] = {stream, &add_owner(owner)};
}

void ThreadCache::forget_routes(OwnerId owner) {
  return_last();
  recent_ = {};
  last_ = {};
  for (Route& route : by_stream_) {
    if (route.front != nullptr && route.front->owner() == owner) route = {};
  }
  for (FrontCache*& front : by_owner_) {
    if (front != nullptr && front->owner() == owner) front = nullptr;
  }
}

}  // namespace berth
