// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/thread_cache.hpp"

namespace berth {

void* ThreadCache::take_slow(std::size_t bytes, StreamKey stream) {
  push_last();
  FrontCache* const front = front_of(stream);
  Stack* const stack = front != nullptr ? front->find(bytes) : nullptr;
  if (stack == nullptr) return nullptr;
  Block& block = stack->pop();
  ++ledger_.allocations_thread_cached;
  last_ = {block.data(), &block, stack->bytes(), stream, stack, front};
  return take_last(bytes);
}

bool ThreadCache::put_slow(void* data, const PointerMap& blocks, StreamKey user) {
  push_last();
  Block* const block = blocks.find_unguarded(reinterpret_cast<std::uintptr_t>(data));
  if (block == nullptr || !is_simple(*block, data) || should_flush()) return false;
  const Place place = place_of(*block);
  if (place.stack == nullptr) return false;
  if (user != kAnyStream && front_of(user) != place.front) return false;
  mark_cached(*block);
  place.front->push(*place.stack, *block);
  return true;
}

void* ThreadCache::take_slow_and_leave(std::size_t bytes, StreamKey stream) {
  void* const data = take_slow(bytes, stream);
  lock_.leave();
  return data;
}

bool ThreadCache::put_slow_and_leave(void* data, const PointerMap& blocks, StreamKey user) {
  const bool keep = put_slow(data, blocks, user);
  lock_.leave();
  return keep;
}

FrontCache& ThreadCache::add_owner(OwnerId owner) {
  FrontCache& front = fronts_.of(owner);
  push_last();
  by_owner_[owner % kRoutes] = &front;
  return front;
}

void ThreadCache::add_route(OwnerId owner, StreamKey stream) {
  by_stream_[place_of(stream)] = {stream, &add_owner(owner)};
}

void ThreadCache::forget_routes(OwnerId owner) {
  push_last();
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
