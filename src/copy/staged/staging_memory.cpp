// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staging_memory.hpp"

#include <algorithm>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"

namespace berth {
namespace {

/// Chunks that a copy is cut into at least, so that its two halves overlap.
constexpr std::size_t kChunksMin = 4;
constexpr std::size_t kChunkBytesMin = 64_KiB;
/// A copy that needs less of a slot than this part gets memory of its own size.
constexpr std::size_t kSmallPart = 16;
/// Behind the slots of a block, on a cache line of its own.
constexpr std::size_t kGateBytes = 64;
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

void add_slots(Staging& staging, std::byte* data, std::size_t block_bytes) {
  for (std::size_t offset = 0; offset + staging.slot_bytes <= block_bytes;
       offset += staging.slot_bytes) {
    staging.slots.push_back(data + offset);
  }
}

/// Behind the slots of the first block.
void set_gate(Staging& staging, std::size_t block_bytes) {
  staging.gate =
      reinterpret_cast<std::uint32_t*>(staging.slots.front() + align_up(block_bytes, kGateBytes));
  *staging.gate = 0;
}

}  // namespace

StagingMemory::StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                             std::size_t slots_max)
    : pinned_(pinned),
      device_(device),
      slot_bytes_(slot_bytes),
      slots_max_(slots_max),
      small_bytes_max_(std::max(slot_bytes / kSmallPart, kChunkBytesMin / kSmallPart)) {}

std::optional<Staging> StagingMemory::try_take(std::size_t bytes, Share share) {
  return take(bytes, share, Bounds::held);
}

Staging StagingMemory::take_beyond(std::size_t bytes, Share share) {
  return *take(bytes, share, Bounds::ignored);
}

std::optional<Staging> StagingMemory::take(std::size_t bytes, Share share, Bounds bounds) {
  if (bytes <= small_bytes_max_) return take_small(bytes, bounds);
  Staging staging;
  staging.slot_bytes = chunk_bytes(bytes, slot_bytes_);
  const std::size_t allowed = share == Share::all ? slots_max_ : slots_max_ / 2;
  const std::size_t wanted = std::min((bytes + slot_bytes_ - 1) / slot_bytes_, allowed);
  try {
    staging.blocks.reserve(wanted);
    while (staging.blocks.size() < wanted) {
      std::optional<Allocation> block = take_slot(bounds);
      if (!block) break;
      staging.blocks.push_back(std::move(*block));
      add_slots(staging, first_page(staging.blocks.back()), slot_bytes_);
    }
  } catch (const OutOfMemory&) {
    if (staging.blocks.empty()) throw;
  } catch (...) {
    give_back(std::move(staging));
    throw;
  }
  if (staging.blocks.empty()) return std::nullopt;
  set_gate(staging, slot_bytes_);
  return staging;
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
    if (slots_in_use_ >= slots_max_ && bounds == Bounds::held) return std::nullopt;
    idle_.reserve(slots_in_use_ + 1);  // for its coming back
    ++slots_in_use_;
  }
  try {
    return pin(slot_bytes_ + kPageBytes);
  } catch (const OutOfMemory&) {
    const MutexLock lock(mutex_);
    if (--slots_in_use_ > 0 && bounds == Bounds::held) return std::nullopt;  // one will come back
    throw;
  } catch (...) {
    const MutexLock lock(mutex_);
    --slots_in_use_;
    throw;
  }
}

std::optional<Staging> StagingMemory::take_small(std::size_t bytes, Bounds bounds) {
  {
    const MutexLock lock(mutex_);
    const bool fits = small_bytes_in_use_ + bytes <= slot_bytes_ * slots_max_;
    if (!fits && bounds == Bounds::held) return std::nullopt;
    small_bytes_in_use_ += bytes;
  }
  Staging staging;
  staging.slot_bytes = bytes;
  staging.is_small = true;
  try {
    staging.blocks.push_back(pin(align_up(bytes, kGateBytes) + kGateBytes));
    add_slots(staging, static_cast<std::byte*>(staging.blocks.front().data()), bytes);
  } catch (...) {
    const MutexLock lock(mutex_);
    small_bytes_in_use_ -= bytes;
    throw;
  }
  set_gate(staging, bytes);
  return staging;
}

void StagingMemory::give_back(Staging staging) noexcept {
  const MutexLock lock(mutex_);
  if (staging.is_small) {
    small_bytes_in_use_ -= staging.slot_bytes;
    return;
  }
  for (Allocation& block : staging.blocks) {
    if (slots_in_use_ + idle_.size() <= slots_max_) idle_.push_back(std::move(block));
    --slots_in_use_;
  }
}

bool StagingMemory::is_in_use() const {
  const MutexLock lock(mutex_);
  return slots_in_use_ > 0 || small_bytes_in_use_ > 0;
}

}  // namespace berth
