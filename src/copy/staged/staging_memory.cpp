// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staging_memory.hpp"

#include <algorithm>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// Chunks that a copy is cut into at least, so that its two halves overlap.
constexpr std::size_t kChunksMin = 4;
constexpr std::size_t kChunkBytesMin = 64_KiB;
/// A copy that needs less of a slot than this part gets memory of its own size.
constexpr std::size_t kSmallPart = 16;
/// Slots for a copy that finds none free.
constexpr std::size_t kSpareOfStream = 2;
constexpr std::size_t kCacheLine = 64;
/// The words of a copy, behind the slots of a block: each on a cache line of its own, because the
/// host writes the one while it reads the other again and again.
constexpr std::size_t kWordsBytes = 2 * kCacheLine;
/// Slots begin at pages, as O_DIRECT may want: blocks of pinned memory begin at multiples of 512 B.
constexpr std::size_t kPageBytes = 4_KiB;

std::size_t chunk_bytes(std::size_t bytes, std::size_t slot_bytes) {
  const std::size_t part = align_up((bytes + kChunksMin - 1) / kChunksMin, kChunkBytesMin);
  return std::min(part, slot_bytes);
}

std::byte* first_page(const Allocation& block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block.data());
  return reinterpret_cast<std::byte*>(align_up(address, kPageBytes));
}

void cut(Staging& staging, std::size_t block_bytes) {
  for (const Allocation& block : staging.blocks->blocks) {
    std::byte* const data = first_page(block);
    for (std::size_t offset = 0; offset + staging.slot_bytes <= block_bytes;
         offset += staging.slot_bytes) {
      staging.slots.push_back(data + offset);
    }
  }
}

void set_words(Staging& staging, std::byte* words) {
  staging.gate = reinterpret_cast<std::uint32_t*>(words);
  staging.progress = reinterpret_cast<std::uint32_t*>(words + kCacheLine);
  *staging.gate = 0;
  *staging.progress = 0;
}

}  // namespace

StagingMemory::StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                             std::size_t slots_max)
    : pinned_(pinned),
      device_(device),
      slot_bytes_(slot_bytes),
      slots_max_(slots_max),
      small_bytes_max_(std::max(slot_bytes / kSmallPart, kChunkBytesMin / kSmallPart)) {}

StagingBlocks::~StagingBlocks() {
  memory.give_back(*this);
}

std::optional<Staging> StagingMemory::try_take(std::size_t bytes, Share share) {
  return take(bytes, share, Bounds::held);
}

std::optional<Staging> StagingMemory::try_take_spare(std::size_t bytes) {
  return take(bytes, Share::half, Bounds::spare);
}

Staging StagingMemory::take_beyond(std::size_t bytes, Share share) {
  return *take(bytes, share, Bounds::ignored);
}

Staging StagingMemory::share(std::shared_ptr<StagingBlocks> blocks, std::size_t bytes) {
  BERTH_CHECK(blocks->small == 0);
  Staging staging{.blocks = std::move(blocks), .words = pin(kWordsBytes)};
  // However few the slots are, the host fills one while the device empties another.
  const std::size_t part =
      align_down(staging.blocks->blocks.size() * slot_bytes_ / kChunksMin, kChunkBytesMin);
  staging.slot_bytes = std::min(chunk_bytes(bytes, slot_bytes_), std::max(part, kChunkBytesMin));
  cut(staging, slot_bytes_);
  set_words(staging, static_cast<std::byte*>(staging.words->data()));
  return staging;
}

std::optional<Staging> StagingMemory::take(std::size_t bytes, Share share, Bounds bounds) {
  if (bytes <= small_bytes_max_) {
    if (std::optional<Staging> small = take_small(bytes, bounds)) return small;
  }
  const std::size_t allowed = bounds == Bounds::spare ? kSpareOfStream
                              : share == Share::all   ? slots_max_
                                                      : slots_max_ / 2;
  const std::size_t wanted = std::min((bytes + slot_bytes_ - 1) / slot_bytes_, allowed);
  Staging staging{.blocks = std::make_shared<StagingBlocks>(*this, 0)};
  std::vector<Allocation>& blocks = staging.blocks->blocks;
  blocks.reserve(wanted);
  try {
    while (blocks.size() < wanted) {
      std::optional<Allocation> block = take_slot(bounds);
      if (!block) break;
      blocks.push_back(std::move(*block));
    }
  } catch (const OutOfMemory&) {
    if (blocks.empty()) throw;
  }
  if (blocks.empty()) return std::nullopt;
  staging.slot_bytes = chunk_bytes(bytes, slot_bytes_);
  cut(staging, slot_bytes_);
  set_words(staging, first_page(blocks.front()) + align_up(slot_bytes_, kCacheLine));
  return staging;
}

std::size_t StagingMemory::slots_bound(Bounds bounds) const {
  if (bounds == Bounds::ignored) return ~std::size_t{0};
  return bounds == Bounds::spare ? slots_max_ * kSpare : slots_max_;
}

std::optional<Allocation> StagingMemory::take_slot(Bounds bounds) {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      Allocation block = std::move(idle_.back());
      idle_.pop_back();
      ++slots_in_use_;
      return block;
    }
    if (slots_in_use_ >= slots_bound(bounds)) return std::nullopt;
    idle_.reserve(slots_in_use_ + 1);  // for its coming back
    ++slots_in_use_;
  }
  try {
    return pin(slot_bytes_ + kPageBytes);
  } catch (const OutOfMemory&) {
    const MutexLock lock(mutex_);
    if (--slots_in_use_ > 0 && bounds != Bounds::ignored) return std::nullopt;  // as at the bound
    throw;
  } catch (...) {
    const MutexLock lock(mutex_);
    --slots_in_use_;
    throw;
  }
}

std::optional<Staging> StagingMemory::take_small(std::size_t bytes, Bounds bounds) {
  Allocation block = pin(align_up(bytes, kCacheLine) + kWordsBytes);
  Staging staging;
  staging.slots = {static_cast<std::byte*>(block.data())};
  staging.slot_bytes = bytes;
  set_words(staging, staging.slots.front() + align_up(bytes, kCacheLine));
  std::vector<Allocation> blocks;
  blocks.push_back(std::move(block));
  const MutexLock lock(mutex_);
  const bool fits = small_bytes_in_use_ + bytes <= slot_bytes_ * slots_max_;
  if (!fits && bounds != Bounds::ignored) return std::nullopt;
  staging.blocks = std::make_shared<StagingBlocks>(*this, bytes);
  staging.blocks->blocks = std::move(blocks);
  small_bytes_in_use_ += bytes;
  return staging;
}

void StagingMemory::give_back(StagingBlocks& blocks) noexcept {
  const MutexLock lock(mutex_);
  small_bytes_in_use_ -= blocks.small;
  if (blocks.small > 0) return;
  for (Allocation& block : blocks.blocks) {
    if (slots_in_use_ + idle_.size() <= slots_max_) idle_.push_back(std::move(block));
    --slots_in_use_;
  }
}

bool StagingMemory::is_in_use() const {
  const MutexLock lock(mutex_);
  return slots_in_use_ > 0 || small_bytes_in_use_ > 0;
}

}  // namespace berth
