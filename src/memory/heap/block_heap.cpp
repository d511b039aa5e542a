// SPDX-License-Identifier: Apache-2.0
#include "memory/heap/block_heap.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {

bool BlockHeap::belong_together(const Block& a, const Block& b) {
  if (a.state() != b.state()) return false;
  if (a.state() == Block::State::free) return a.owner == b.owner;
  return a.state() == Block::State::unmapped;
}

Block& BlockHeap::split(Block& block, std::size_t bytes) {
  BERTH_CHECK(block.state() == Block::State::held && bytes > 0 && bytes < block.bytes);
  Block& rest = records_.make();
  rest.address = block.address + bytes;
  rest.bytes = block.bytes - bytes;
  rest.freed_at = block.freed_at;
  link_after(block, rest);
  block.bytes = bytes;
  return rest;
}

void BlockHeap::link_before(Block& block, Block& added) {
  added.prev = block.prev;
  added.next = &block;
  if (block.prev != nullptr) {
    block.prev->next = &added;
  } else {
    segments_.at(added.address) = &added;
  }
  block.prev = &added;
}

void BlockHeap::link_after(Block& block, Block& added) {
  added.prev = &block;
  added.next = block.next;
  if (block.next != nullptr) block.next->prev = &added;
  block.next = &added;
}

void BlockHeap::unlink(Block& gone, Block& heir) {
  BERTH_CHECK(heir.end() == gone.address || gone.end() == heir.address);
  heir.freed_at = std::max(heir.freed_at, gone.freed_at);
  if (gone.prev != nullptr) {
    gone.prev->next = gone.next;
  } else {
    segments_.at(gone.address) = gone.next;
  }
  if (gone.next != nullptr) gone.next->prev = gone.prev;
  records_.recycle(gone);
}

void BlockHeap::absorb_next(Block& block) {
  const std::size_t bytes = block.next->bytes;
  unlink(*block.next, block);
  block.bytes += bytes;
}

void BlockHeap::index(Block& block) {
  if (block.state() == Block::State::unmapped) {
    unmapped_.emplace(block.address, &block);
    return;
  }
  free_of(block.owner).insert(block);
  ++free_count_;
  free_bytes_ += block.bytes;
}

void BlockHeap::unindex(Block& block) {
  if (block.state() == Block::State::unmapped) {
    unmapped_.erase(block.address);
    return;
  }
  free_of(block.owner).erase(block);
  --free_count_;
  free_bytes_ -= block.bytes;
}

Block& BlockHeap::add_segment(std::uintptr_t address, std::size_t bytes) {
  Block& block = records_.make();
  block.address = address;
  block.bytes = bytes;
  const bool added = segments_.emplace(address, &block).second;
  BERTH_CHECK(added);
  return block;
}

BlockHeap::Segments::node_type BlockHeap::detach_segment(Block& whole) {
  BERTH_CHECK(whole.state() == Block::State::held && whole.is_whole_segment());
  auto detached = segments_.extract(whole.address);
  BERTH_CHECK(!detached.empty() && detached.mapped() == &whole);
  return detached;
}

void BlockHeap::attach_segment(Segments::node_type&& detached) noexcept {
  const bool attached = segments_.insert(std::move(detached)).inserted;
  BERTH_CHECK(attached);
}

void BlockHeap::remove_segment(Segments::node_type&& detached) noexcept {
  records_.recycle(*detached.mapped());
}

Block& BlockHeap::cut_off(Block& hole, std::uintptr_t address, std::size_t bytes) {
  Block& part = records_.make();
  part.address = address;
  part.bytes = bytes;
  part.freed_at = hole.freed_at;
  part.owner = hole.owner;
  if (address == hole.address) {
    link_before(hole, part);
    free_of(hole.owner).move(hole, address + bytes, hole.bytes - bytes);
  } else {
    link_after(hole, part);
    free_of(hole.owner).move(hole, hole.address, hole.bytes - bytes);
  }
  free_bytes_ -= bytes;
  return part;
}

Block& BlockHeap::hold(Block& block, std::uintptr_t address, std::size_t bytes) {
  records_.reserve(2);  // so that nothing fails halfway
  BERTH_CHECK(block.state() == Block::State::free || block.state() == Block::State::unmapped);
  BERTH_CHECK(block.address <= address && address + bytes <= block.end());
  const Block::State state = block.state();
  const bool is_end = address == block.address || address + bytes == block.end();
  if (state == Block::State::free && is_end && bytes < block.bytes) {
    return cut_off(block, address, bytes);
  }
  const OwnerId owner = block.owner;
  unindex(block);
  block.set_state(Block::State::held);

  Block* part = &block;
  if (address > block.address) {
    part = &split(block, address - block.address);
    block.set_state(state);
    index(block);
  }
  if (bytes < part->bytes) {
    Block& rest = split(*part, bytes);
    rest.set_state(state);
    rest.owner = owner;
    index(rest);
  }
  part->owner = owner;
  return *part;
}

void BlockHeap::settle(Block& block, Block::State state, OwnerId owner) {
  BERTH_CHECK(block.state() == Block::State::held);
  block.set_state(state);
  block.owner = owner;
  if (state == Block::State::free) return coalesce_free(block);
  BERTH_CHECK(state == Block::State::unmapped);
  Block* merged = &block;
  if (block.next != nullptr && belong_together(block, *block.next)) {
    unindex(*block.next);
    absorb_next(block);
  }
  if (block.prev != nullptr && belong_together(*block.prev, block)) {
    merged = block.prev;
    unindex(*merged);
    absorb_next(*merged);
  }
  index(*merged);
}

/// A neighbour that is free already grows, which often leaves it where it is in the index.
void BlockHeap::coalesce_free(Block& block) {
  Block* const prev = block.prev;
  Block* const next = block.next;
  const bool joins_prev = prev != nullptr && belong_together(*prev, block);
  const bool joins_next = next != nullptr && belong_together(block, *next);
  if (!joins_prev && !joins_next) return index(block);

  FreeIndex& index = free_of(block.owner);
  free_bytes_ += block.bytes;
  if (!joins_prev) {
    const std::uintptr_t address = block.address;
    const std::size_t bytes = block.bytes + next->bytes;
    unlink(block, *next);
    return index.move(*next, address, bytes);
  }
  std::size_t bytes = prev->bytes + block.bytes;
  if (joins_next) {
    bytes += next->bytes;
    index.erase(*next);
    --free_count_;
    unlink(*next, block);
  }
  unlink(block, *prev);
  index.move(*prev, prev->address, bytes);
}

void BlockHeap::set_granule_bytes(std::size_t bytes) {
  BERTH_CHECK(std::has_single_bit(bytes) && segments_.empty());
  granule_bytes_ = bytes;
}

std::size_t BlockHeap::granules_broken(const Block& hole, std::uintptr_t address,
                                       std::size_t bytes) const {
  if (granule_bytes_ == 0) return 0;
  const std::uintptr_t begin =
      std::max(align_up(hole.address, granule_bytes_), align_down(address, granule_bytes_));
  const std::uintptr_t end =
      std::min(align_down(hole.end(), granule_bytes_), align_up(address + bytes, granule_bytes_));
  return begin < end ? (end - begin) >> std::countr_zero(granule_bytes_) : 0;
}

BlockHeap::Fit BlockHeap::find_fit(std::size_t bytes, OwnerId owner) const {
  Block* hole = free_blocks(owner).best_fit(bytes);
  if (owner != kUnowned) {
    Block* unowned = unowned_.best_fit(bytes);
    if (hole == nullptr || (unowned != nullptr && unowned->bytes < hole->bytes)) hole = unowned;
  }
  return hole == nullptr ? Fit{} : fit_in(*hole, bytes);
}

BlockHeap::Fit BlockHeap::fit_in(Block& hole, std::size_t bytes) const {
  const Fit low{&hole, hole.address, granules_broken(hole, hole.address, bytes)};
  if (low.granules_broken == 0 || hole.bytes == bytes) return low;
  const std::uintptr_t address = hole.end() - bytes;
  const Fit high{&hole, address, granules_broken(hole, address, bytes)};
  return high.granules_broken < low.granules_broken ? high : low;
}

Block& BlockHeap::take(const Fit& fit, std::size_t bytes, std::size_t bytes_requested,
                       OwnerId owner) {
  in_use_.reserve_one();
  Block& block = hold(*fit.hole, fit.address, bytes);
  block.set_state(Block::State::allocated);
  block.owner = owner;
  block.uses = {0, 0};
  block.set_bytes_requested(bytes_requested);
  in_use_.insert(block);
  return block;
}

Block& BlockHeap::join(std::span<Block* const> parts, std::uintptr_t address,
                       std::size_t bytes_requested, OwnerId owner) {
  in_use_.reserve_one();
  if (stitched_.size() == stitched_.capacity()) stitched_.reserve(2 * stitched_.size() + 8);
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
  whole.set_state(Block::State::allocated);
  whole.set_bytes_requested(bytes_requested);
  whole.freed_at = stitched_.size();
  stitched_.push_back(&whole);
  in_use_.insert(whole);
  return whole;
}

void BlockHeap::release_parts(Block& whole, OwnerId owner) {
  for (Block* part = whole.next; part != nullptr;) {
    Block* const next = part->part.next;
    BERTH_CHECK(part->state() == Block::State::part && part->part.whole == &whole);
    part->freed_at = serial_;
    part->set_state(Block::State::held);
    settle(*part, Block::State::free, owner);
    part = next;
  }
  Block* const last = stitched_.back();
  stitched_[whole.freed_at] = last;
  last->freed_at = whole.freed_at;
  stitched_.pop_back();
  records_.recycle(whole);
}

void BlockHeap::set_pending(Block& block) {
  BERTH_CHECK(block.state() == Block::State::allocated || block.state() == Block::State::cached);
  in_use_.erase(block);
  block.set_state(Block::State::pending);
}

void BlockHeap::release(Block& block, OwnerId owner) {
  if (block.state() == Block::State::pending) {
    BERTH_CHECK(block.uses.marks_left == 0);
  } else {
    set_pending(block);
  }
  ++serial_;
  if (block.is_stitched) return release_parts(block, owner);
  block.freed_at = serial_;
  block.set_state(Block::State::held);
  settle(block, Block::State::free, owner);
}

Block* BlockHeap::find(const void* data) const {
  Block* const block = in_use_.find(reinterpret_cast<std::uintptr_t>(data));
  return block != nullptr && block->state() == Block::State::allocated ? block : nullptr;
}

const Block* BlockHeap::find_covering(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Block* whole : stitched_) {
    if (address - whole->address < whole->bytes) return whole;
  }
  auto segment = segments_.upper_bound(address);
  if (segment == segments_.begin()) return nullptr;
  for (const Block* block = std::prev(segment)->second; block != nullptr; block = block->next) {
    if (address < block->end()) return block;
  }
  return nullptr;
}

std::set<std::uintptr_t> BlockHeap::stitched_addresses() const {
  std::set<std::uintptr_t> addresses;
  for (const Block* whole : stitched_) addresses.insert(whole->address);
  return addresses;
}

bool BlockHeap::covers(const void* data) const {
  const Block* block = find_covering(data);
  return block != nullptr && block->state() != Block::State::unmapped;
}

std::size_t BlockHeap::largest_free_bytes() const {
  std::size_t largest = unowned_.largest_bytes();
  for (const auto& [owner, blocks] : owned_) largest = std::max(largest, blocks->largest_bytes());
  return largest;
}

FreeIndex& BlockHeap::free_of(OwnerId owner) {
  if (owner == kUnowned) return unowned_;
  if (owner != last_owner_) {
    std::unique_ptr<FreeIndex>& index = owned_[owner];
    if (index == nullptr) index = std::make_unique<FreeIndex>();
    last_owner_ = owner;
    last_index_ = index.get();
  }
  return *last_index_;
}

const FreeIndex& BlockHeap::free_blocks(OwnerId owner) const {
  static const FreeIndex none;
  if (owner == kUnowned) return unowned_;
  if (owner == last_owner_) return *last_index_;
  const auto found = owned_.find(owner);
  return found == owned_.end() ? none : *found->second;
}

std::size_t BlockHeap::metadata_bytes() const {
  return records_.bytes_committed() + in_use_.bytes_committed() +
         (owned_.size() + 1) * sizeof(FreeIndex);
}

}  // namespace berth
