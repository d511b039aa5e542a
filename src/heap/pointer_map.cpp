// SPDX-License-Identifier: Apache-2.0
#include "heap/pointer_map.hpp"

#include <utility>

#include "base/check.hpp"

namespace berth {
namespace {

constexpr int kFirstBits = 6;

}  // namespace

PointerMap::Table::Table(int bits_)
    : bits(bits_),
      mask((std::size_t{1} << bits) - 1),
      slots(new std::atomic<std::uint32_t>[mask + 1]()) {}

PointerMap::PointerMap(const BlockRecords& records)
    : records_(records),
      table_(nullptr),
      owned_(new Table(kFirstBits)),
      count_max_(owned_->count_max()) {
  table_.store(owned_.get(), std::memory_order_relaxed);
}

void PointerMap::put(Block& block) {
  const Table& table = *owned_;
  std::atomic<std::uint32_t>* const slots = table.slots.get();
  const std::uintptr_t address = block.address;
  std::size_t slot = table.home(address);
  while (const std::uint32_t number = slots[slot].load(std::memory_order_relaxed)) {
    BERTH_CHECK(records_.at(number).address != address);
    slot = table.next(slot);
  }
  slots[slot].store(records_.number_of(block), std::memory_order_release);
}

void PointerMap::erase(const Block& block) {
  const Table& table = *owned_;
  std::atomic<std::uint32_t>* const slots = table.slots.get();
  const std::uint32_t erased = records_.number_of(block);
  std::size_t hole = table.home(block.address);
  for (std::uint32_t found; (found = slots[hole].load(std::memory_order_relaxed)) != erased;) {
    BERTH_CHECK(found != 0);
    hole = table.next(hole);
  }
  --count_;
  // An entry that probing would no longer reach across the hole moves into it. It is copied before
  // its old slot is emptied, so that readers always find it.
  for (std::size_t slot = table.next(hole);; slot = table.next(slot)) {
    const std::uint32_t number = slots[slot].load(std::memory_order_relaxed);
    if (number == 0) break;
    const std::size_t home = table.home(records_.at(number).address);
    const std::size_t distance_from_home = (slot - home) & table.mask;
    const std::size_t distance_from_hole = (slot - hole) & table.mask;
    if (distance_from_home < distance_from_hole) continue;
    slots[hole].store(number, std::memory_order_release);
    hole = slot;
  }
  slots[hole].store(0, std::memory_order_release);
}

void PointerMap::grow() {
  auto larger = std::make_unique<Table>(owned_->bits + 1);
  outgrown_.reserve(outgrown_.size() + 1);
  outgrown_.push_back(std::move(owned_));
  owned_ = std::move(larger);
  count_max_ = owned_->count_max();
  const Table& former = *outgrown_.back();
  for (std::size_t slot = 0; slot <= former.mask; ++slot) {
    const std::uint32_t number = former.slots[slot].load(std::memory_order_relaxed);
    if (number != 0) put(records_.at(number));
  }
  table_.store(owned_.get(), std::memory_order_release);
}

std::size_t PointerMap::bytes_committed() const {
  const auto bytes = [](const Table& table) {
    return (table.mask + 1) * sizeof(std::atomic<std::uint32_t>);
  };
  std::size_t sum = bytes(*owned_);
  for (const auto& table : outgrown_) sum += bytes(*table);
  return sum;
}

}  // namespace berth
