// SPDX-License-Identifier: Apache-2.0
#include "heap/block_heap.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace berth {

bool BlockHeap::belong_together(const Block& a, const Block& b) {
  if (a.state() != b.state()) return false;
  if (a.state() == Block::State::free) return a.owner == b.owner;
  return a.state() == Block::State::unmapped;
}

// Neighbors in a segment.

[[gnu::always_inline]] inline void BlockHeap::set_next(Block* before, std::uintptr_t address,
                                                       Block& block) {
  if (before != nullptr) {
    before->next = &block;
  } else {
    const auto segment = segments_.find(address);
    BERTH_CHECK(segment != segments_.end());
    segment->second.first = &block;
  }
}

[[gnu::always_inline]] inline void BlockHeap::link_before(Block& block, Block& added) {
  BERTH_CHECK(added.address == block.address);
  added.prev = block.prev;
  added.next = &block;
  set_next(block.prev, added.address, added);
  block.prev = &added;
}

[[gnu::always_inline]] inline void BlockHeap::link_after(Block& block, Block& added) {
  added.prev = &block;
  added.next = block.next;
  if (block.next != nullptr) block.next->prev = &added;
  block.next = &added;
}

[[gnu::always_inline]] inline void BlockHeap::absorb_next(Block& block) noexcept {
  Block& gone = *block.next;
  BERTH_CHECK(gone.prev == &block && block.end() == gone.address);
  block.freed_at = std::max(block.freed_at, gone.freed_at);
  block.next = gone.next;
  if (gone.next != nullptr) gone.next->prev = &block;
  records_.recycle(gone);
}

// Insertion into and removal from the indexes.

[[gnu::always_inline]] inline void BlockHeap::index(Block& block, FreeIndex& free) noexcept {
  free.insert(block);
  ++free_count_;
  free_bytes_ += block.bytes;
}

[[gnu::always_inline]] inline void BlockHeap::unindex(Block& block, FreeIndex& free) noexcept {
  free.erase(block);
  --free_count_;
  free_bytes_ -= block.bytes;
}

[[gnu::always_inline]] inline void BlockHeap::enter_use(Block& block) noexcept {
  in_use_.insert(block);
  if (segments_with_starts_ > 0) [[unlikely]]
    note_start(block, true);
}

[[gnu::always_inline]] inline void BlockHeap::leave_use(Block& block) noexcept {
  in_use_.erase(block);
  if (segments_with_starts_ > 0) [[unlikely]]
    note_start(block, false);
}

// Holding and release.

void BlockHeap::reserve_blocks(std::size_t count) {
  records_.reserve(2 * count);  // the block, and the remainder behind it
  unmapped_.reserve(unmapped_.size() + held_ + 2 * count);
}

Block& BlockHeap::split(Block& block, std::size_t bytes) {
  BERTH_CHECK(block.state() == Block::State::held && bytes > 0 && bytes < block.bytes);
  reserve_blocks(1);
  ++held_;
  return split_off(block, bytes);
}

Block& BlockHeap::split_off(Block& block, std::size_t bytes) {
  BERTH_CHECK(bytes > 0 && bytes < block.bytes);
  Block& rest = records_.make();
  rest.address = block.address + bytes;
  rest.bytes = block.bytes - bytes;
  rest.freed_at = block.freed_at;
  rest.owner = block.owner;
  link_after(block, rest);
  block.bytes = bytes;
  return rest;
}

[[gnu::always_inline]] inline Block& BlockHeap::cut_off(Block& hole, FreeIndex& free,
                                                        std::uintptr_t address, std::size_t bytes) {
  Block& part = records_.make();
  part.address = address;
  part.bytes = bytes;
  part.freed_at = hole.freed_at;
  part.owner = hole.owner;
  if (address == hole.address) {
    link_before(hole, part);
    free.move(hole, address + bytes, hole.bytes - bytes);
  } else {
    link_after(hole, part);
    free.move(hole, hole.address, hole.bytes - bytes);
  }
  free_bytes_ -= bytes;
  return part;
}

/// Usually the whole block or an end of it. Fails before it changes the heap.
[[gnu::always_inline]] inline Block& BlockHeap::carve_free(Block& hole, FreeIndex& free,
                                                           std::uintptr_t address,
                                                           std::size_t bytes) {
  const bool is_low = address == hole.address;
  const bool is_high = address + bytes == hole.end();
  if (is_low != is_high) {
    BERTH_CHECK(bytes > 0 && bytes < hole.bytes);
    return cut_off(hole, free, address, bytes);
  }
  if (!is_low) records_.reserve(2);
  return carve(hole, free, address, bytes);
}

Block& BlockHeap::carve(Block& block, FreeIndex& free, std::uintptr_t address, std::size_t bytes) {
  const Block::State state = block.state();
  BERTH_CHECK(state == Block::State::free || state == Block::State::unmapped);
  BERTH_CHECK(bytes > 0 && block.address <= address && address + bytes <= block.end());
  const bool is_free = state == Block::State::free;
  const auto put_back = [&](Block& rest) {
    rest.set_state(state);
    if (is_free) {
      index(rest, free);
    } else {
      unmapped_.insert(rest);
    }
  };
  if (is_free) {
    unindex(block, free);
  } else {
    unmapped_.erase(block);
  }
  block.set_state(Block::State::held);
  Block* part = &block;
  if (address > block.address) {
    part = &split_off(block, address - block.address);
    put_back(block);
  }
  if (bytes < part->bytes) put_back(split_off(*part, bytes));
  return *part;
}

Block& BlockHeap::hold(Block& block, std::uintptr_t address, std::size_t bytes) {
  reserve_blocks(1);
  Block& part = block.state() == Block::State::free
                    ? carve_free(block, of(block.owner).free, address, bytes)
                    : carve(block, unowned_.free, address, bytes);
  ++held_;
  return part;
}

void BlockHeap::release_held(Block& block, Block::State state, OwnerId owner) {
  BERTH_CHECK(block.state() == Block::State::held && held_ > 0);
  if (state == Block::State::free) {
    insert_free(block, owner, of(owner));
  } else {
    BERTH_CHECK(state == Block::State::unmapped);
    block.owner = owner;
    insert_unmapped(block);
  }
  --held_;
}

void BlockHeap::insert_unmapped(Block& block) noexcept {
  block.set_state(Block::State::unmapped);
  Block* merged = &block;
  if (block.next != nullptr && belong_together(block, *block.next)) {
    unmapped_.erase(*block.next);
    const std::size_t bytes = block.next->bytes;
    absorb_next(block);
    block.bytes += bytes;
  }
  if (block.prev != nullptr && belong_together(*block.prev, block)) {
    merged = block.prev;
    unmapped_.erase(*merged);
    const std::size_t bytes = block.bytes;
    absorb_next(*merged);
    merged->bytes += bytes;
  }
  unmapped_.insert(*merged);
}

/// A free neighbor grows, which often keeps its place in the index.
void BlockHeap::insert_free(Block& block, OwnerId owner, Owned& owned) noexcept {
  block.set_state(Block::State::free);
  block.owner = owner;
  Block* const prev = block.prev;
  Block* const next = block.next;
  const bool merges_prev = prev != nullptr && belong_together(*prev, block);
  const bool merges_next = next != nullptr && belong_together(block, *next);
  FreeIndex& free = owned.free;
  if (!merges_prev && !merges_next) return index(block, free);

  free_bytes_ += block.bytes;
  if (!merges_prev) {
    const std::uintptr_t address = block.address;
    const std::size_t bytes = block.bytes + next->bytes;
    BERTH_CHECK(block.end() == next->address);
    next->freed_at = std::max(next->freed_at, block.freed_at);
    next->prev = block.prev;
    set_next(block.prev, address, *next);
    records_.recycle(block);
    return free.move(*next, address, bytes);
  }
  std::size_t bytes = prev->bytes + block.bytes;
  if (merges_next) {
    bytes += next->bytes;
    free.erase(*next);
    --free_count_;
    absorb_next(block);
  }
  absorb_next(*prev);
  free.move(*prev, prev->address, bytes);
}

// Allocating and freeing.

BlockHeap::Fit BlockHeap::find_fit(std::size_t bytes, OwnerId owner) const {
  ++searches_;
  const Owned* const owned = owner != kUnowned ? find_owned(owner) : nullptr;
  Block* hole = owned != nullptr ? owned->free.best_fit(bytes) : nullptr;
  if (hole == nullptr) hole = unowned_.free.best_fit(bytes);
  return hole == nullptr ? Fit{} : fit_in(*hole, bytes);
}

BlockHeap::Fit BlockHeap::fit_in(Block& hole, std::size_t bytes) const {
  if (hole.bytes < granule_bytes_min_) return {&hole, hole.address, 0};
  const Fit low{&hole, hole.address, granules_broken(hole, hole.address, bytes)};
  if (low.granules_broken == 0 || hole.bytes == bytes) return low;
  const std::uintptr_t address = hole.end() - bytes;
  const Fit high{&hole, address, granules_broken(hole, address, bytes)};
  return high.granules_broken < low.granules_broken ? high : low;
}

Block& BlockHeap::take(const Fit& fit, std::size_t bytes, std::size_t bytes_requested,
                       OwnerId owner) {
  BERTH_CHECK(fit.hole->state() == Block::State::free);
  BERTH_CHECK(fit.hole->owner == owner || fit.hole->owner == kUnowned);
  in_use_.reserve_one();
  Owned& owned = of(owner);
  FreeIndex& free = fit.hole->owner == kUnowned ? unowned_.free : owned.free;
  Block& block = carve_free(*fit.hole, free, fit.address, bytes);
  ++owned.taken;
  block.set_state(Block::State::allocated);
  block.owner = owner;
  block.uses = {0, 0};
  block.set_bytes_requested(bytes_requested);
  enter_use(block);
  return block;
}

void BlockHeap::set_pending(Block& block) noexcept {
  BERTH_CHECK(block.state() == Block::State::allocated || block.state() == Block::State::cached);
  leave_use(block);
  block.set_state(Block::State::pending);
}

void BlockHeap::release(Block& block, OwnerId owner) {
  const Block::State state = block.state();
  Owned& owned = of(owner);
  const OwnerId former_owner = block.owner;
  Owned& former = former_owner == owner ? owned : of(former_owner);
  BERTH_CHECK(former.taken > 0);
  if (state == Block::State::pending) {
    BERTH_CHECK(block.uses.marks_left == 0);
  } else {
    BERTH_CHECK(state == Block::State::allocated || state == Block::State::cached);
    leave_use(block);
  }
  --former.taken;
  owned.freed_last = ++serial_;
  if (block.is_stitched) {
    release_parts(block, owner, owned);
  } else {
    block.freed_at = serial_;
    insert_free(block, owner, owned);
  }
  if (former_owner != owner) drop_if_done(former_owner);
}

// Stitched blocks.

void BlockHeap::reserve_join() {
  in_use_.reserve_one();
  stitched_.reserve(stitched_.size() + 1);
  reserve_blocks(2);
}

Block& BlockHeap::stitch(std::span<Block* const> parts, std::uintptr_t address,
                         std::size_t bytes_requested, OwnerId owner) {
  in_use_.reserve_one();
  stitched_.reserve(stitched_.size() + 1);
  records_.reserve(1);
  Owned& owned = of(owner);
  BERTH_CHECK(!parts.empty() && parts.size() <= held_);
  Block& whole = records_.make();
  whole.is_stitched = true;
  whole.address = address;
  whole.owner = owner;
  whole.next = parts.front();
  whole.uses = {0, 0};
  Block* following = nullptr;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    BERTH_CHECK((*part)->state() == Block::State::held);
    (*part)->set_state(Block::State::part);
    (*part)->part.whole = &whole;
    (*part)->part.next = following;
    (*part)->owner = owner;
    following = *part;
    whole.bytes += (*part)->bytes;
  }
  held_ -= parts.size();
  ++owned.taken;
  whole.set_state(Block::State::allocated);
  whole.set_bytes_requested(bytes_requested);
  stitched_.insert(whole);
  enter_use(whole);
  return whole;
}

void BlockHeap::release_parts(Block& whole, OwnerId owner, Owned& owned) noexcept {
  stitched_.erase(whole);
  for (Block* part = whole.next; part != nullptr;) {
    Block* const next = part->part.next;
    BERTH_CHECK(part->state() == Block::State::part && part->part.whole == &whole);
    part->freed_at = serial_;
    insert_free(*part, owner, owned);
    part = next;
  }
  records_.recycle(whole);
}

}  // namespace berth
