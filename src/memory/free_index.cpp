// SPDX-License-Identifier: Apache-2.0
#include "memory/free_index.hpp"

#include "base/check.hpp"

namespace berth {

void FreeIndex::insert(Block& block) {
  BERTH_CHECK(block.state == Block::State::free);
  const bool inserted = blocks_.insert(&block).second;
  BERTH_CHECK(inserted);
  bytes_ += block.bytes;
}

void FreeIndex::erase(Block& block) {
  const std::size_t erased = blocks_.erase(&block);
  BERTH_CHECK(erased == 1);
  bytes_ -= block.bytes;
}

Block* FreeIndex::best_fit(std::size_t bytes) const {
  const auto found = blocks_.lower_bound(bytes);
  return found == blocks_.end() ? nullptr : *found;
}

}  // namespace berth
