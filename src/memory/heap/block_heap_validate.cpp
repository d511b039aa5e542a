// SPDX-License-Identifier: Apache-2.0
// What must hold in a heap at every moment.
#include "base/check.hpp"
#include "memory/heap/block_heap.hpp"

namespace berth {

void BlockHeap::validate_segment(const Block& first, Seen& seen) const {
  BERTH_CHECK(first.prev == nullptr);
  for (const Block* block = &first; block != nullptr; block = block->next) {
    BERTH_CHECK(block->bytes > 0 && !block->is_stitched);
    if (block->next != nullptr) {
      BERTH_CHECK(block->next->prev == block);
      BERTH_CHECK(block->next->address == block->end());
      BERTH_CHECK(!belong_together(*block, *block->next));
    }
    const Block::State state = block->state();
    validate_use(*block, seen);
    if (state == Block::State::part) {
      BERTH_CHECK(block->part.whole->is_stitched);
      ++seen.parts;
    }
    if (state == Block::State::free) {
      BERTH_CHECK(free_blocks(block->owner).contains(*block));
      BERTH_CHECK(block->freed_at <= serial_);
      ++seen.free;
    }
    if (state == Block::State::unmapped) {
      const auto found = unmapped_.find(block->address);
      BERTH_CHECK(found != unmapped_.end() && found->second == block);
    }
  }
}

void BlockHeap::validate_use(const Block& block, Seen& seen) const {
  const Block::State state = block.state();
  const bool in_use = state == Block::State::allocated || state == Block::State::cached;
  BERTH_CHECK(in_use == (in_use_.find(block.address) == &block));
  if (in_use) ++seen.in_use;
  if (state == Block::State::allocated) {
    BERTH_CHECK(block.bytes_requested() > 0);
    BERTH_CHECK(block.uses.marks_left == 0);
  }
  if (state == Block::State::pending) BERTH_CHECK(block.uses.marks_left > 0);
}

void BlockHeap::validate_stitched(Seen& seen) const {
  for (const Block* whole : stitched_) {
    BERTH_CHECK(stitched_[whole->freed_at] == whole && whole->is_stitched);
    validate_use(*whole, seen);
    std::size_t bytes = 0;
    for (const Block* part = whole->next; part != nullptr; part = part->part.next) {
      BERTH_CHECK(part->state() == Block::State::part && part->part.whole == whole);
      bytes += part->bytes;
      BERTH_CHECK(seen.parts > 0);
      --seen.parts;
    }
    BERTH_CHECK(bytes == whole->bytes);
  }
  BERTH_CHECK(seen.parts == 0);
}

void BlockHeap::validate() const {
  Seen seen;
  std::uintptr_t end = 0;
  for (const auto& [address, first] : segments_) {
    BERTH_CHECK(first->address == address && address >= end);
    validate_segment(*first, seen);
    const Block* last = first;
    while (last->next != nullptr) last = last->next;
    end = last->end();
  }
  validate_stitched(seen);
  BERTH_CHECK(seen.in_use == in_use_.count());
  BERTH_CHECK(seen.free == free_count_);
  std::size_t indexed_count = unowned_.count();
  std::size_t indexed_bytes = unowned_.bytes();
  for (const auto& [owner, blocks] : owned_) {
    indexed_count += blocks->count();
    indexed_bytes += blocks->bytes();
  }
  BERTH_CHECK(indexed_count == free_count_);
  BERTH_CHECK(indexed_bytes == free_bytes_);
}

}  // namespace berth
