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

std::size_t BlockHeap::transfer_whole(OwnerId from, OwnerId to, std::uint64_t serial,
                                      std::size_t bytes) {
  if (has_granules()) {
    const std::size_t granules = bytes / granule_bytes_ + (bytes % granule_bytes_ != 0 ? 1 : 0);
    return transfer_granules(from, to, serial, granules) * granule_bytes_;
  }
  std::vector<Block*> blocks = freed_up_to(serial, from);
  std::erase_if(blocks, [](const Block* block) { return !block->is_whole_segment(); });
  std::size_t moved = 0;
  for (; moved < bytes && !blocks.empty(); blocks.pop_back()) {  // the fewest: the largest first
    Block& block = *blocks.back();
    moved += block.bytes;
    settle(hold(block, block.address, block.bytes), Block::State::free, to);
  }
  return moved;
}

}  // namespace berth
