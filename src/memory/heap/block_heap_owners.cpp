// SPDX-License-Identifier: Apache-2.0
// What owners have free, and how it passes from one to another.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/arithmetic.hpp"
#include "memory/heap/block_heap.hpp"

namespace berth {

std::vector<OwnerId> BlockHeap::owners_with_free_blocks() const {
  std::vector<OwnerId> owners;
  for (const auto& [owner, blocks] : owned_) {
    if (!blocks->empty()) owners.push_back(owner);
  }
  std::sort(owners.begin(), owners.end());
  return owners;
}

std::vector<OwnerId> BlockHeap::owners_with_fit(std::size_t bytes) const {
  std::vector<std::pair<std::size_t, OwnerId>> fits;
  for (const auto& [owner, blocks] : owned_) {
    if (const Block* fit = blocks->best_fit(bytes)) fits.emplace_back(fit->bytes, owner);
  }
  std::sort(fits.begin(), fits.end());
  std::vector<OwnerId> owners;
  for (const auto& [fit_bytes, owner] : fits) owners.push_back(owner);
  return owners;
}

std::size_t BlockHeap::whole_granules(OwnerId owner) const {
  std::size_t granules = 0;
  free_blocks(owner).for_each(
      [&](const Block& block) { granules += granules_broken(block, block.address, block.bytes); });
  return granules;
}

std::vector<Block*> BlockHeap::freed_up_to(std::uint64_t serial, OwnerId owner) const {
  std::vector<Block*> blocks;
  free_blocks(owner).for_each([&](Block& block) {
    if (block.freed_at <= serial) blocks.push_back(&block);
  });
  return blocks;
}

std::size_t BlockHeap::transfer(OwnerId from, OwnerId to, std::uint64_t serial) {
  const std::vector<Block*> blocks = freed_up_to(serial, from);
  for (Block* block : blocks) {
    settle(hold(*block, block->address, block->bytes), Block::State::free, to);
  }
  if (from != kUnowned && free_blocks(from).empty()) {  // the owner may never come back
    owned_.erase(from);
    last_owner_ = kUnowned;
    last_index_ = &unowned_;
  }
  return blocks.size();
}

bool BlockHeap::transfer_fit(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes) {
  Block* const hole = free_blocks(from).best_fit(bytes);
  if (hole == nullptr || hole->freed_at > serial) return false;
  const Fit fit = fit_in(*hole, bytes);
  settle(hold(*hole, fit.address, bytes), Block::State::free, to);
  return true;
}

std::size_t BlockHeap::transfer_granules(OwnerId from, OwnerId to, std::uint64_t serial,
                                         std::size_t granules) {
  std::size_t moved = 0;
  for (Block* block : freed_up_to(serial, from)) {
    if (moved == granules) break;
    const std::size_t whole = granules_broken(*block, block->address, block->bytes);
    const std::size_t taken = std::min(whole, granules - moved);
    if (taken == 0) continue;
    const std::uintptr_t address = align_up(block->address, granule_bytes_);
    settle(hold(*block, address, taken * granule_bytes_), Block::State::free, to);
    moved += taken;
  }
  return moved;
}

}  // namespace berth
