// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/transfer_cache.hpp"

namespace berth {

Block* TransferCache::take(OwnerId owner, std::size_t bytes, FrontCache& front) {
  FrontCache* const here = fronts_.find(owner);
  FrontCache::Stack* const stack = here != nullptr ? here->find(bytes) : nullptr;
  if (stack == nullptr) return nullptr;
  Block& block = stack->pop();
  if (FrontCache::Stack* const place = front.place(bytes)) front.take_all(*place, *stack);
  return &block;
}

}  // namespace berth
