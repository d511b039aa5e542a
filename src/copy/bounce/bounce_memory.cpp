// SPDX-License-Identifier: Apache-2.0
#include "copy/bounce/bounce_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Belongs to the copy that took it, and only that copy's thread accesses it.
struct BounceMemory::Block {
  struct Use {
    const DeviceContext* context = nullptr;
    CUstream_st* stream = nullptr;
    bool operator==(const Use&) const = default;
  };

  [[nodiscard]] bool has_room(std::size_t bytes) const { return bytes <= memory.bytes() - used; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory.data()); }

  Allocation memory;
  std::size_t used = 0;
  /// Streams that are recorded on the memory, the last of them where there are more: recording one again
  /// does no harm.
  std::array<Use, 8> uses{};
  std::size_t use_count = 0;
  std::uint64_t retirements = 0;  ///< as of the first of them
};

namespace {

/// Where a thread looks for a block first, so that it finds the one that it had last.
std::size_t first_slot() {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t slot = threads.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

}  // namespace

BounceMemory::BounceMemory(const DeviceRegistry& registry, PinnedAllocator& pinned)
    : registry_(registry), pinned_(pinned) {
  for (int ordinal = 0; ordinal < registry_.count(); ++ordinal)
    registry_.context(Device::cuda(ordinal)).add_observer(retirements_);
}

BounceMemory::~BounceMemory() {
  for (int ordinal = 0; ordinal < registry_.count(); ++ordinal)
    registry_.context(Device::cuda(ordinal)).remove_observer(retirements_);
  for (Slot& slot : slots_) delete slot.block.load(std::memory_order_acquire);
}

std::byte* BounceMemory::Part::data() const {
  return block_->data() + begin_;
}

void BounceMemory::Part::reuse() noexcept {
  block_->used = begin_;
}

BounceMemory::Part BounceMemory::take(std::size_t bytes, StreamRef stream) {
  Part part(*this, take_block());
  Block& block = *part.block_;
  if (!block.has_room(bytes) && !renew(block, stream)) return {};
  record(block, stream);
  part.begin_ = block.used;
  block.used = std::min(align_up(block.used + bytes, kAlignment), block.memory.bytes());
  return part;
}

BounceMemory::Block* BounceMemory::take_block() {
  const std::size_t first = first_slot();
  for (std::size_t offset = 0; offset < kSlots; ++offset) {
    std::atomic<Block*>& slot = slots_[(first + offset) % kSlots].block;
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (Block* const block = slot.exchange(nullptr, std::memory_order_acquire)) return block;
  }
  return new Block;
}

void BounceMemory::put_back(Block* block) noexcept {
  const std::size_t first = first_slot();
  for (std::size_t offset = 0; offset < kSlots; ++offset) {
    std::atomic<Block*>& slot = slots_[(first + offset) % kSlots].block;
    Block* none = nullptr;
    if (slot.compare_exchange_strong(none, block, std::memory_order_release,
                                     std::memory_order_relaxed))
      return;
  }
  delete block;
}

bool BounceMemory::renew(Block& block, StreamRef stream) {
  block.memory.reset();
  block.used = 0;
  block.use_count = 0;
  auto memory = pinned_.try_allocate(kBlockBytes, {.near = stream.device(), .may_wait = false});
  if (!memory) return false;
  block.memory = std::move(memory).value();
  return true;
}

void BounceMemory::record(Block& block, StreamRef stream) {
  const std::uint64_t retirements = retirements_.count.load();
  if (block.retirements != retirements) block.use_count = 0;
  const Block::Use use{&stream.context(), stream.native()};
  const std::size_t known = std::min(block.use_count, block.uses.size());
  if (std::find(block.uses.begin(), block.uses.begin() + known, use) != block.uses.begin() + known)
    return;
  pinned_.record_stream(block.memory.data(), stream);
  block.retirements = retirements;
  block.uses[block.use_count++ % block.uses.size()] = use;
}

}  // namespace berth
