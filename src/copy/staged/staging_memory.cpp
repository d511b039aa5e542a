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

/// A copy is split into at least this number of chunks, so that host and device work concurrently.
constexpr std::size_t kChunksMin = 4;
constexpr std::size_t kChunkBytesMin = 64_KiB;
/// A copy of up to this fraction of a slot is one chunk: overlap would gain less than the calls for
/// more chunks cost.
constexpr std::size_t kOneChunkPart = 16;
/// The host fills one while the device empties another.
constexpr std::size_t kRingSlotsMin = 2;
constexpr std::size_t kCacheLine = 64;
/// The two words of a copy, behind its chunks. Each has its own cache line, because the host writes
/// one while it polls the other.
constexpr std::size_t kWordsBytes = 2 * kCacheLine;
/// Slots are aligned to pages, which O_DIRECT may require. Blocks of pinned memory are aligned to
/// only 512 B.
constexpr std::size_t kSlotAlignment = 4_KiB;

std::size_t chunk_bytes(std::size_t bytes, std::size_t slot_bytes) {
  const std::size_t part = align_up((bytes + kChunksMin - 1) / kChunksMin, kChunkBytesMin);
  return std::min(part, slot_bytes);
}

std::byte* first_page(const StagingBlock& block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block.get());
  return reinterpret_cast<std::byte*>(align_up(address, kSlotAlignment));
}

/// Adds chunks of `bytes`, beginning at `data`.
void cut(Staging& staging, std::byte* data, std::size_t bytes) {
  for (std::size_t offset = 0; offset + staging.slot_bytes <= bytes; offset += staging.slot_bytes)
    staging.slots.push_back(data + offset);
}

void cut_slots(Staging& staging, std::size_t slot_bytes) {
  for (const StagingBlock& block : staging.blocks->blocks)
    cut(staging, first_page(block), slot_bytes);
}

void set_words(Staging& staging, std::byte* words) {
  BERTH_CHECK(!staging.slots.empty());
  BERTH_CHECK(staging.is_shared() || words >= staging.slots.front() + staging.slot_bytes);
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
      one_chunk_max_(std::max(slot_bytes, kChunkBytesMin) / kOneChunkPart) {}

StagingMemory::~StagingMemory() {
  const MutexLock lock(mutex_);
  BERTH_CHECK(slots_in_use_ == 0 &&
              own_bytes_in_use_ == 0);  // otherwise memory in use would be unpinned
}

StagingBlocks::~StagingBlocks() {
  BERTH_CHECK(user == nullptr);  // otherwise the next copy would overwrite its chunks
  memory.give_back(*this);
}

std::optional<Staging> StagingMemory::try_take(std::size_t bytes, Share share) {
  return take(bytes, share, Bounds::enforced);
}

std::optional<Staging> StagingMemory::try_take_spare(std::size_t bytes) {
  return take(bytes, Share::half, Bounds::spare);
}

Staging StagingMemory::take_unbounded(std::size_t bytes, Share share) {
  return *take(bytes, share, Bounds::ignored);
}

Staging StagingMemory::share(std::shared_ptr<StagingBlocks> blocks, std::size_t bytes) {
  BERTH_CHECK(blocks->are_slots());
  Staging staging{.blocks = std::move(blocks), .words = pin(kWordsBytes, Bounds::enforced)};
  // Small enough for several chunks even with few slots, so that the host fills one chunk while the
  // device empties another.
  const std::size_t part =
      align_down(staging.blocks->blocks.size() * slot_bytes_ / kChunksMin, kChunkBytesMin);
  staging.slot_bytes = std::min(chunk_bytes(bytes, slot_bytes_), std::max(part, kChunkBytesMin));
  cut_slots(staging, slot_bytes_);
  set_words(staging, staging.words.get());
  return staging;
}

std::optional<Staging> StagingMemory::take(std::size_t bytes, Share share, Bounds bounds) {
  if (bytes < slot_bytes_) {
    if (std::optional<Staging> own = take_own_size(bytes, bounds)) return own;
  }
  return take_slots(bytes, share, bounds);
}

std::optional<Staging> StagingMemory::take_own_size(std::size_t bytes, Bounds bounds) {
  const bool is_cut = bytes > one_chunk_max_;
  Staging staging{.blocks = std::make_shared<StagingBlocks>(*this)};
  staging.slot_bytes = is_cut ? std::min(chunk_bytes(bytes, slot_bytes_), bytes) : bytes;
  const std::size_t chunks = (bytes + staging.slot_bytes - 1) / staging.slot_bytes;
  const std::size_t own_bytes = chunks * staging.slot_bytes;
  {
    const MutexLock lock(mutex_);
    const bool fits = own_bytes_in_use_ + own_bytes <= slot_bytes_ * slots_max_;
    if (!fits && bounds != Bounds::ignored) return std::nullopt;
    own_bytes_in_use_ += own_bytes;
    staging.blocks->own_bytes = own_bytes;
  }
  const std::size_t words_offset = align_up(own_bytes, kCacheLine);
  const std::size_t page_bytes = is_cut ? kSlotAlignment : 0;
  try {
    staging.blocks->blocks.push_back(pin(words_offset + kWordsBytes + page_bytes, bounds));
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
  const StagingBlock& block = staging.blocks->blocks.front();
  std::byte* const data = is_cut ? first_page(block) : block.get();
  cut(staging, data, own_bytes);
  set_words(staging, data + words_offset);
  return staging;
}

std::optional<Staging> StagingMemory::take_slots(std::size_t bytes, Share share, Bounds bounds) {
  const std::size_t allowed = bounds == Bounds::spare ? kRingSlotsMin : slots_of(share);
  const std::size_t wanted = std::min((bytes + slot_bytes_ - 1) / slot_bytes_, allowed);
  Staging staging{.blocks = std::make_shared<StagingBlocks>(*this)};
  std::vector<StagingBlock>& blocks = staging.blocks->blocks;
  blocks.reserve(wanted);
  try {
    while (blocks.size() < wanted) {
      StagingBlock block = take_slot(bounds);
      if (block == nullptr) break;
      blocks.push_back(std::move(block));
    }
  } catch (const OutOfMemory&) {
    if (blocks.empty()) throw;
  }
  if (blocks.empty()) return std::nullopt;
  staging.slot_bytes = chunk_bytes(bytes, slot_bytes_);
  cut_slots(staging, slot_bytes_);
  set_words(staging, first_page(blocks.front()) + align_up(slot_bytes_, kCacheLine));
  return staging;
}

std::size_t StagingMemory::slots_of(Share share) const {
  const std::size_t half = slots_max_ / 2;
  if (share == Share::all) return slots_max_;
  if (share == Share::half) return half;
  return std::clamp(slots_max_ / 3, std::min(half, kRingSlotsMin), half);
}

std::size_t StagingMemory::slots_bound(Bounds bounds) const {
  if (bounds == Bounds::ignored) return ~std::size_t{0};
  return bounds == Bounds::spare ? slots_max_ * kSpare : slots_max_;
}

StagingBlock StagingMemory::take_slot(Bounds bounds) {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      StagingBlock block = std::move(idle_.back());
      idle_.pop_back();
      ++slots_in_use_;
      return block;
    }
    if (slots_in_use_ >= slots_bound(bounds)) return nullptr;
    idle_.reserve(slots_in_use_ + 1);  // for its return
    ++slots_in_use_;
  }
  try {
    return pin(slot_bytes_ + kSlotAlignment, bounds);
  } catch (const OutOfMemory&) {
    const MutexLock lock(mutex_);
    if (--slots_in_use_ > 0 && bounds != Bounds::ignored) return nullptr;  // as at the bound
    throw;
  } catch (...) {
    const MutexLock lock(mutex_);
    --slots_in_use_;
    throw;
  }
}

void StagingMemory::give_back(StagingBlocks& blocks) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(own_bytes_in_use_ >= blocks.own_bytes);
  own_bytes_in_use_ -= blocks.own_bytes;
  if (!blocks.are_slots()) return;
  BERTH_CHECK(slots_in_use_ >= blocks.blocks.size());
  for (StagingBlock& block : blocks.blocks) {
    if (slots_in_use_ + idle_.size() <= slots_max_) idle_.push_back(std::move(block));
    --slots_in_use_;
  }
  BERTH_CHECK(slots_in_use_ + idle_.size() <= std::max(slots_in_use_, slots_max_));
}

std::size_t StagingMemory::bytes_in_use() const {
  const MutexLock lock(mutex_);
  return slots_in_use_ * slot_bytes_ + own_bytes_in_use_;
}

}  // namespace berth
