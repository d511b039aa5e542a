// SPDX-License-Identifier: Apache-2.0
#include "memory/hand_over.hpp"

namespace berth {

FrontCache* HandOver::find(OwnerId owner) const {
  for (const auto& front : fronts_) {
    if (front->owner() == owner) return front.get();
  }
  return nullptr;
}

FrontCache& HandOver::front_of(OwnerId owner) {
  if (FrontCache* const front = find(owner)) return *front;
  return *fronts_.emplace_back(std::make_unique<FrontCache>(owner));
}

Block* HandOver::take(OwnerId owner, std::size_t bytes, FrontCache& front) {
  FrontCache* const here = find(owner);
  FrontCache::Stack* const stack = here != nullptr ? here->find(bytes) : nullptr;
  if (stack == nullptr) return nullptr;
  Block& block = stack->pop();
  if (FrontCache::Stack* const place = front.place(bytes)) front.take_all(*place, *stack);
  return &block;
}

}  // namespace berth
