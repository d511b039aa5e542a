// SPDX-License-Identifier: Apache-2.0
// The free memory of owners, and its transfer from one owner to another.
#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "heap/block_heap.hpp"

namespace berth {
namespace {

/// The bound for one call, because an owner may have very many blocks and other threads wait
/// meanwhile.
constexpr int kBlocksLookedAt = 256;

bool is_unowned(const Block* neighbor) {
  return neighbor != nullptr && neighbor->state() == Block::State::free &&
         neighbor->owner == kUnowned;
}

bool is_free_for(const Block* neighbor, OwnerId owner) {
  return neighbor != nullptr && neighbor->state() == Block::State::free &&
         (neighbor->owner == kUnowned || neighbor->owner == owner);
}

}  // namespace

BlockHeap::Owned& BlockHeap::look_up(OwnerId owner) {
  auto found = owned_.find(owner);
  if (found == owned_.end()) found = make_owned(owner);
  last_owner_ = owner;
  owned_by_last_ = found->second.get();
  return *owned_by_last_;
}

BlockHeap::Owners::iterator BlockHeap::make_owned(OwnerId owner) {
  if (!spares_.empty()) {
    Owners::node_type spare = std::move(spares_.back());
    spares_.pop_back();
    spare.key() = owner;
    return owned_.insert(std::move(spare)).position;
  }
  spares_.reserve(kSparesMax);
  const auto made = owned_.emplace(owner, std::make_unique<Owned>()).first;
  if (holes_ != nullptr) made->second->free.index_holes(*holes_);
  return made;
}

void BlockHeap::drop_if_done(OwnerId owner) noexcept {
  const auto found = owned_.find(owner);
  if (held_ > 0) return;  // held blocks return to their owner without allocating host memory
  if (found == owned_.end() || found->second->taken > 0 || !found->second->free.empty()) return;
  if (holes_ != nullptr) holes_->forget(found->second->free.holes());
  found->second->freed_last = 0;
  Owners::node_type spare = owned_.extract(found);
  if (spares_.size() < kSparesMax) spares_.push_back(std::move(spare));
  last_owner_ = kUnowned;
  owned_by_last_ = &unowned_;
}

const GranuleIndex& BlockHeap::holes_of_all() const {
  unowned_.free.file_recent();
  for (const auto& [owner, owned] : owned_) owned->free.file_recent();
  return *holes_;
}

FreeIndex* BlockHeap::free_of(OwnerId owner) {
  Owned* const owned = const_cast<Owned*>(find_owned(owner));
  return owner == kUnowned ? &unowned_.free : owned == nullptr ? nullptr : &owned->free;
}

const FreeIndex& BlockHeap::free_blocks(OwnerId owner) const {
  static const FreeIndex none;
  if (owner == kUnowned) return unowned_.free;
  const Owned* const owned = find_owned(owner);
  return owned == nullptr ? none : owned->free;
}

std::size_t BlockHeap::largest_free_bytes() const {
  std::size_t largest = unowned_.free.largest_bytes();
  for (const auto& [owner, owned] : owned_)
    largest = std::max(largest, owned->free.largest_bytes());
  return largest;
}

std::size_t BlockHeap::metadata_bytes() const {
  return records_.bytes_committed() + in_use_.bytes_committed() + unmapped_.bytes_committed() +
         stitched_.bytes_committed() + (owned_.size() + spares_.size() + 1) * sizeof(Owned) +
         (holes_ == nullptr ? 0 : holes_->bytes_committed());
}

std::vector<OwnerId> BlockHeap::owners_with_free_blocks(std::vector<OwnerId> room) const {
  std::vector<OwnerId> owners = std::move(room);
  owners.clear();
  owners.reserve(owned_.size());
  for (const auto& [owner, owned] : owned_) {
    if (!owned->free.empty()) owners.push_back(owner);
  }
  std::sort(owners.begin(), owners.end());
  return owners;
}

std::vector<OwnerId> BlockHeap::owners_with_fit(std::size_t bytes) const {
  std::vector<std::pair<std::size_t, OwnerId>> fits;
  fits.reserve(owned_.size());
  for (const auto& [owner, owned] : owned_) {
    if (const Block* fit = owned->free.best_fit(bytes)) fits.emplace_back(fit->bytes, owner);
  }
  std::sort(fits.begin(), fits.end());
  std::vector<OwnerId> owners;
  owners.reserve(fits.size());
  for (const auto& [fit_bytes, owner] : fits) owners.push_back(owner);
  return owners;
}

bool BlockHeap::others_have_free(OwnerId owner, std::size_t bytes) const {
  return std::ranges::any_of(owned_, [&](const auto& other) {
    const FreeIndex& free = other.second->free;
    return other.first != owner && !free.empty() &&
           (free.holes().whole_granules > 0 || free.best_fit(bytes) != nullptr);
  });
}

void BlockHeap::pass_on(Block& block, FreeIndex& from, std::uintptr_t address, std::size_t bytes,
                        OwnerId owner, Owned& to) {
  BERTH_CHECK(block.state() == Block::State::free);
  insert_free(carve(block, from, address, bytes), owner, to);
}

// The smallest first, which are least useful to `from`. Its free blocks are never neighbors, so
// that the transfer of one leaves the others in place.
std::size_t BlockHeap::transfer(OwnerId from, OwnerId to, std::uint64_t serial, Order order) {
  FreeIndex* const source = free_of(from);
  if (source == nullptr || source->empty()) {
    drop_if_done(from);
    return 0;
  }
  Owned& target = of(to);
  if (order == Order::behind_wait) target.freed_last = ++serial_;
  std::size_t moved = 0;
  std::size_t bytes = 0;
  for (Block* block = source->next_after(0, 0); block != nullptr;) {
    bytes = block->bytes;
    const std::uintptr_t address = block->address;
    if (block->freed_at <= serial) {
      if (order == Order::behind_wait) block->freed_at = serial_;
      pass_on(*block, *source, address, bytes, to, target);
      ++moved;
    }
    block = source->next_after(bytes, address);
  }
  drop_if_done(from);
  return moved;
}

bool BlockHeap::transfer_fit(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes) {
  FreeIndex* const source = free_of(from);
  Block* const hole = source == nullptr ? nullptr : source->best_fit(bytes);
  if (hole == nullptr || hole->freed_at > serial) return false;
  records_.reserve(2);
  Owned& target = of(to);
  const Fit fit = fit_in(*hole, bytes);
  pass_on(*hole, *source, fit.address, bytes, to, target);
  return true;
}

std::size_t BlockHeap::transfer_granules(OwnerId from, OwnerId to, std::uint64_t serial,
                                         std::size_t granules) {
  FreeIndex* const source = free_of(from);
  const std::size_t wanted =
      source == nullptr ? 0 : std::min(granules, source->holes().whole_granules);
  if (wanted == 0) return 0;
  records_.reserve(2 * std::min(wanted, source->count()));
  Owned& target = of(to);
  std::size_t moved = 0;
  constexpr std::uintptr_t kAddressMax = ~std::uintptr_t{0};
  for (Block* block = source->next_after(granule_bytes_ - 1, kAddressMax);
       block != nullptr && moved < wanted;) {
    const std::size_t bytes = block->bytes;
    const std::uintptr_t address = block->address;
    const std::size_t whole = granules_broken(*block, address, bytes);
    const std::size_t taken = block->freed_at <= serial ? std::min(whole, wanted - moved) : 0;
    if (taken > 0) {
      pass_on(*block, *source, align_up(address, granule_bytes_), taken * granule_bytes_, to,
              target);
      moved += taken;
    }
    block = source->next_after(bytes, address);
  }
  return moved;
}

template <class Visit>
void BlockHeap::for_some_beside_unowned(OwnerId owner, const Visit& visit) {
  FreeIndex* const own = free_of(owner);
  if (owner == kUnowned || own == nullptr || unowned_.free.empty()) return;
  constexpr std::size_t kBytesMax = ~std::size_t{0};
  Block* block = own->last_before(kBytesMax, 0);
  for (int looked_at = 0; block != nullptr && looked_at < kBlocksLookedAt; ++looked_at) {
    const std::size_t bytes = block->bytes;
    const std::uintptr_t address = block->address;
    if ((is_unowned(block->prev) || is_unowned(block->next)) && visit(*block)) return;
    block = own->last_before(bytes, address);
  }
}

std::uintptr_t BlockHeap::reach_up(const Block& block, std::uintptr_t limit) {
  std::uintptr_t end = block.end();
  for (const Block* next = block.next; end < limit && is_free_for(next, block.owner);
       next = next->next) {
    end = next->end();
  }
  return std::min(end, limit);
}

std::uintptr_t BlockHeap::reach_down(const Block& block, std::uintptr_t limit) {
  std::uintptr_t begin = block.address;
  for (const Block* prev = block.prev; begin > limit && is_free_for(prev, block.owner);
       prev = prev->prev) {
    begin = prev->address;
  }
  return std::max(begin, limit);
}

Block& BlockHeap::grow_up(Block& block, std::uintptr_t limit) {
  while (block.end() < limit) {
    Block& next = *block.next;
    const std::size_t taken = std::min<std::size_t>(limit - next.address, next.bytes);
    records_.reserve(2);
    pass_on(next, unowned_.free, next.address, taken, block.owner, of(block.owner));
  }
  return block;
}

Block& BlockHeap::grow_down(Block& block, std::uintptr_t limit) {
  Block* grown = &block;
  while (grown->address > limit) {
    Block& prev = *grown->prev;
    const std::size_t taken = std::min<std::size_t>(prev.end() - limit, prev.bytes);
    // Memory that merges with the block in front of it becomes part of that block.
    const bool merges = taken == prev.bytes && prev.prev != nullptr &&
                        prev.prev->state() == Block::State::free &&
                        prev.prev->owner == grown->owner;
    Block* const merged = merges ? prev.prev.get() : grown;
    records_.reserve(2);
    pass_on(prev, unowned_.free, prev.end() - taken, taken, grown->owner, of(grown->owner));
    grown = merged;
  }
  return *grown;
}

bool BlockHeap::extend_hole(OwnerId owner, std::size_t bytes) {
  bool found = false;
  for_some_beside_unowned(owner, [&](Block& block) {
    if (block.bytes >= bytes) return false;  // it was refused
    // On one side, if that suffices.
    const std::uintptr_t end = reach_up(block, block.address + bytes);
    if (end - block.address == bytes) {
      grow_up(block, end);
      return found = true;
    }
    if (block.end() - reach_down(block, block.end() - bytes) == bytes) {
      grow_down(block, block.end() - bytes);
      return found = true;
    }
    if (end - reach_down(block, end - bytes) < bytes) return false;
    grow_down(grow_up(block, end), end - bytes);
    return found = true;
  });
  return found;
}

std::size_t BlockHeap::complete_granules(OwnerId owner) {
  std::size_t completed = 0;
  for_some_beside_unowned(owner, [&](Block& block) {
    const std::uintptr_t begin = align_down(block.address, granule_bytes_);
    const std::uintptr_t end = align_up(block.end(), granule_bytes_);
    const bool reaches_begin = reach_down(block, begin) == begin;
    const bool reaches_end = reach_up(block, end) == end;
    // If the block lies within one granule, each end is useless without the other.
    const bool is_within = end - begin == granule_bytes_;
    if (is_within && !(reaches_begin && reaches_end)) return false;
    const std::size_t before = free_blocks(owner).holes().whole_granules;
    Block* grown = &block;
    if (reaches_end) grown = &grow_up(*grown, end);
    if (reaches_begin) grow_down(*grown, begin);
    completed += free_blocks(owner).holes().whole_granules - before;
    return false;
  });
  return completed;
}

std::size_t BlockHeap::transfer_whole(OwnerId from, OwnerId to, std::uint64_t serial,
                                      std::size_t bytes) {
  if (has_granules()) {
    return transfer_granules(from, to, serial, granules_to_join(bytes)) * granule_bytes_;
  }
  FreeIndex* const source = free_of(from);
  if (source == nullptr || source->empty()) return 0;
  Owned& target = of(to);
  std::size_t moved = 0;
  constexpr std::size_t kBytesMax = ~std::size_t{0};
  Block* block = source->last_before(kBytesMax, 0);  // the largest first: the fewest
  while (block != nullptr && moved < bytes) {
    const std::size_t block_bytes = block->bytes;
    const std::uintptr_t address = block->address;
    if (block->freed_at <= serial && block->is_whole_segment()) {
      pass_on(*block, *source, address, block_bytes, to, target);
      moved += block_bytes;
    }
    block = source->last_before(block_bytes, address);
  }
  return moved;
}

void BlockHeap::reserve_restored(std::size_t count, std::size_t pieces) {
  in_use_.reserve(count);
  stitched_.reserve(stitched_.size() + count);
  records_.reserve(4 * pieces + count);  // two for each time that a piece is held
  unmapped_.reserve(unmapped_.size() + held_ + 4 * pieces);
}

Block& BlockHeap::take_over(std::uintptr_t address, std::size_t bytes, OwnerId owner) {
  const std::uintptr_t end = address + bytes;
  const auto free_at = [this](std::uintptr_t where) -> Block& {
    Block& block = const_cast<Block&>(*tile_at(where));
    BERTH_CHECK(block.state() == Block::State::free);
    return block;
  };
  for (std::uintptr_t from = address; from < end;) {
    Block& piece = free_at(from);
    const std::uintptr_t until = std::min(piece.end(), end);
    if (piece.owner != owner)
      release_held(hold(piece, from, until - from), Block::State::free, owner);
    from = until;
  }
  Block& whole = free_at(address);
  BERTH_CHECK(whole.owner == owner && whole.end() >= end);
  return whole;
}

}  // namespace berth
