// SPDX-License-Identifier: Apache-2.0
// Lookup of blocks by address.
//
// Frees name the start of a block, which the pointer map finds. An address within a block, such as
// that of a view of a tensor, is looked up in BlockStarts. A segment creates BlockStarts at the
// first such lookup, so that programs without them have no cost.
#include <iterator>
#include <new>

#include "base/check.hpp"
#include "heap/block_heap.hpp"

namespace berth {
namespace {

/// A segment of at most this many blocks is searched block by block.
constexpr int kBlocksWalked = 16;

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

bool is_in_use(const Block& block) {
  return block.state() == Block::State::allocated || block.state() == Block::State::cached;
}

}  // namespace

Block* BlockHeap::find(const void* data) const {
  Block* const block = in_use_.find(address_of(data));
  return block != nullptr && block->state() == Block::State::allocated ? block : nullptr;
}

BlockHeap::Segments::const_iterator BlockHeap::segment_covering(std::uintptr_t address) const {
  const auto later = segments_.upper_bound(address);
  if (later == segments_.begin()) return segments_.end();
  const auto segment = std::prev(later);
  return address - segment->first < segment->second.bytes ? segment : segments_.end();
}

BlockHeap::Segments::iterator BlockHeap::segment_of(const Block& block) {
  const auto later = segments_.upper_bound(block.address);
  BERTH_CHECK(later != segments_.begin());
  return std::prev(later);
}

void BlockHeap::note_start(const Block& block, bool is_in_use) noexcept {
  if (block.is_stitched) return;
  BlockStarts* const starts = segment_of(block)->second.starts.get();
  if (starts == nullptr) return;
  if (is_in_use) {
    starts->insert(block);
  } else {
    starts->erase(block);
  }
}

bool BlockHeap::has_starts(std::uintptr_t address, const Segment& segment) const {
  if (segment.starts != nullptr) return true;
  try {
    segment.starts = std::make_unique<BlockStarts>(address, segment.bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++segments_with_starts_;
  for (const Block* block = segment.first; block != nullptr; block = block->next)
    if (is_in_use(*block)) segment.starts->insert(*block);
  return true;
}

const Block& BlockHeap::near(std::uintptr_t address, std::uintptr_t segment_address,
                             const Segment& segment) const {
  const Block* block = segment.first;
  if (segment.starts == nullptr) {
    for (int walked = 0; walked < kBlocksWalked; ++walked, block = block->next)
      if (address < block->end()) return *block;
    if (!has_starts(segment_address, segment)) {
      while (address >= block->end()) block = block->next;
      return *block;
    }
  }
  const auto start = segment.starts->last_up_to(address);
  if (!start) return *segment.first;
  block = in_use_.find(*start);
  BERTH_CHECK(block != nullptr && block->address <= address && is_in_use(*block));
  return *block;
}

const Block* BlockHeap::find_covering(const void* data) const {
  const std::uintptr_t address = address_of(data);
  if (const Block* whole = stitched_.covering(address)) return whole;
  return tile_at(address);
}

const Block* BlockHeap::tile_at(std::uintptr_t address) const {
  const auto segment = segment_covering(address);
  if (segment == segments_.end()) return nullptr;
  const Block* block = &near(address, segment->first, segment->second);
  while (address >= block->end()) block = block->next;
  BERTH_CHECK(block->address <= address);
  return block;
}

Block* BlockHeap::find_in_use(const void* data) const {
  const std::uintptr_t address = address_of(data);
  const Block* block = in_use_.find(address);
  if (block == nullptr) block = stitched_.covering(address);
  if (block == nullptr) {
    const auto segment = segment_covering(address);
    if (segment == segments_.end()) return nullptr;
    block = &near(address, segment->first, segment->second);
  }
  // Otherwise the found block is the last one before a range that is not in use.
  const bool is_found = address < block->end() && is_in_use(*block);
  return is_found ? const_cast<Block*>(block) : nullptr;
}

bool BlockHeap::covers(const void* data) const {
  const std::uintptr_t address = address_of(data);
  if (stitched_.covering(address) != nullptr) return true;
  return segment_covering(address) != segments_.end() && unmapped_.covering(address) == nullptr;
}

std::set<std::uintptr_t> BlockHeap::stitched_addresses() const {
  std::set<std::uintptr_t> addresses;
  for (const auto& [address, whole] : stitched_) addresses.insert(address);
  return addresses;
}

}  // namespace berth
