// SPDX-License-Identifier: Apache-2.0
// The invariants of a heap.
#include "base/check.hpp"
#include "heap/block_heap.hpp"

namespace berth {

void BlockHeap::validate_segment(const Segment& segment, Seen& seen) const {
  BERTH_CHECK(segment.first->prev == nullptr);
  std::size_t bytes = 0;
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    BERTH_CHECK(block->bytes > 0 && !block->is_stitched);
    bytes += block->bytes;
    ++seen.blocks;
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
      if (holes_ != nullptr) {
        BERTH_CHECK(holes_->contains(free_blocks(block->owner).holes(), *block));
      }
      BERTH_CHECK(block->freed_at <= serial_);
      ++seen.free;
    }
    if (state == Block::State::unmapped) {
      BERTH_CHECK(unmapped_.find(block->address) == block);
      ++seen.unmapped;
    }
    if (state == Block::State::held) ++seen.held;
    if (segment.starts != nullptr) {
      const auto last = segment.starts->last_up_to(block->end() - 1);
      const bool is_start = last && *last >= block->address;
      BERTH_CHECK(is_start == (in_use_.find(block->address) == block));
      BERTH_CHECK(!is_start || *last == block->address);
    }
  }
  BERTH_CHECK(bytes == segment.bytes);
}

void BlockHeap::validate_use(const Block& block, Seen& seen) const {
  const Block::State state = block.state();
  const bool in_use = state == Block::State::allocated || state == Block::State::cached;
  BERTH_CHECK(in_use == (in_use_.find(block.address) == &block));
  if (in_use) ++seen.in_use;
  if (in_use || state == Block::State::pending) {
    ++seen.taken;
    ++seen.taken_by[block.owner];
  }
  if (state == Block::State::allocated) {
    BERTH_CHECK(block.bytes_requested() > 0);
    BERTH_CHECK(block.uses.marks_left == 0);
  }
  if (state == Block::State::pending) BERTH_CHECK(block.uses.marks_left > 0);
}

void BlockHeap::validate_stitched(Seen& seen) const {
  for (const auto& [address, whole] : stitched_) {
    BERTH_CHECK(whole->address == address && whole->is_stitched);
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

void BlockHeap::validate_owners(const Seen& seen) const {
  std::size_t indexed_count = 0;
  std::size_t indexed_bytes = 0;
  std::size_t taken = 0;
  const auto add = [&](OwnerId owner, const Owned& owned) {
    std::size_t granules = 0;
    owned.free.for_each([&](const Block& block) {
      BERTH_CHECK(block.owner == owner);
      granules += granules_broken(block, block.address, block.bytes);
    });
    BERTH_CHECK(holes_ == nullptr || owned.free.holes().whole_granules == granules);
    const auto found = seen.taken_by.find(owner);
    BERTH_CHECK(owned.taken == (found == seen.taken_by.end() ? 0 : found->second));
    taken += owned.taken;
    indexed_count += owned.free.count();
    indexed_bytes += owned.free.bytes();
  };
  add(kUnowned, unowned_);
  for (const auto& [owner, owned] : owned_) add(owner, *owned);
  BERTH_CHECK(taken == seen.taken);  // every owner with blocks has an index
  BERTH_CHECK(indexed_count == free_count_);
  BERTH_CHECK(indexed_bytes == free_bytes_);
}

void BlockHeap::validate() const {
  Seen seen;
  std::uintptr_t end = 0;
  std::size_t with_starts = 0;
  for (const auto& [address, segment] : segments_) {
    BERTH_CHECK(segment.first->address == address && address >= end);
    validate_segment(segment, seen);
    end = address + segment.bytes;
    if (segment.starts != nullptr) ++with_starts;
  }
  validate_stitched(seen);
  validate_owners(seen);
  BERTH_CHECK(seen.in_use == in_use_.count());
  BERTH_CHECK(seen.free == free_count_);
  BERTH_CHECK(seen.held + detached_ == held_);
  BERTH_CHECK(seen.unmapped == unmapped_.size());
  BERTH_CHECK(seen.blocks + stitched_.size() + detached_ == records_.count());  // no record is lost
  BERTH_CHECK(unmapped_.size() + held_ <= unmapped_.capacity());
  BERTH_CHECK(with_starts == segments_with_starts_);
}

}  // namespace berth
