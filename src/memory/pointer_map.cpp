// SPDX-License-Identifier: Apache-2.0
#include "memory/pointer_map.hpp"

#include <bit>
#include <utility>

#include "base/check.hpp"

namespace berth {

PointerMap::PointerMap() : slots_(64, nullptr) {}

std::size_t PointerMap::home(std::uintptr_t address) const {
  // Fibonacci hashing: the low bits of block addresses are all zero, the high bits of the product
  // depend on every bit of the address. Source: Knuth, TAOCP volume 3, section 6.4.
  constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15u;
  const int bits = std::countr_zero(slots_.size());
  return static_cast<std::size_t>((address * golden_ratio) >> (64 - bits));
}

void PointerMap::insert(Block& block) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  std::size_t slot = home(block.address);
  while (slots_[slot] != nullptr) {
    BERTH_CHECK(slots_[slot]->address != block.address);
    slot = next(slot);
  }
  slots_[slot] = &block;
  ++count_;
}

void PointerMap::erase(const Block& block) {
  std::size_t hole = home(block.address);
  while (slots_[hole] != &block) {
    BERTH_CHECK(slots_[hole] != nullptr);
    hole = next(hole);
  }
  slots_[hole] = nullptr;
  --count_;
  // Whatever probing would no longer reach across the hole moves into it.
  for (std::size_t slot = next(hole); slots_[slot] != nullptr; slot = next(slot)) {
    const std::size_t mask = slots_.size() - 1;
    const std::size_t distance_from_home = (slot - home(slots_[slot]->address)) & mask;
    const std::size_t distance_from_hole = (slot - hole) & mask;
    if (distance_from_home < distance_from_hole) continue;
    slots_[hole] = std::exchange(slots_[slot], nullptr);
    hole = slot;
  }
}

Block* PointerMap::find(std::uintptr_t address) const {
  for (std::size_t slot = home(address); slots_[slot] != nullptr; slot = next(slot)) {
    if (slots_[slot]->address == address) return slots_[slot];
  }
  return nullptr;
}

void PointerMap::grow() {
  std::vector<Block*> old(2 * slots_.size(), nullptr);
  old.swap(slots_);
  count_ = 0;
  for (Block* block : old) {
    if (block != nullptr) insert(*block);
  }
}

}  // namespace berth
