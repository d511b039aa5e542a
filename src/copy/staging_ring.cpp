// SPDX-License-Identifier: Apache-2.0
#include "copy/staging_ring.hpp"

#include "base/check.hpp"
#include "device/device_context.hpp"
#include "stream/settle.hpp"

namespace berth {

StagingRing::StagingRing(DeviceContext& context, PinnedAllocator& pinned, std::size_t slot_bytes,
                         std::size_t slots_max)
    : context_(context),
      pinned_(pinned),
      events_(context),
      slot_bytes_(slot_bytes),
      slots_max_(slots_max) {}

StagingRing::Slot& StagingRing::acquire(bool& waited) {
  if (Slot* slot = try_acquire()) return *slot;
  waited = true;
  Slot& oldest = *hold_oldest();
  try {
    if (oldest.last_use) oldest.last_use->ref().sync();
  } catch (...) {
    put_back(oldest);
    throw;
  }
  oldest.last_use.reset();
  return oldest;
}

StagingRing::Slot* StagingRing::try_acquire() {
  // Each slot is asked about without the lock, so it is held meanwhile.
  for (std::size_t index = 0;; ++index) {
    Slot* slot = nullptr;
    {
      const MutexLock lock(mutex_);
      if (index >= slots_max_) return nullptr;
      slot = index == slots_.size() ? &slots_.emplace_back() : &slots_[index];
      if (slot->held) continue;
      slot->held = true;
    }
    try {
      if (!slot->memory) slot->memory = pinned_.allocate(slot_bytes_);
      if (!slot->last_use || slot->last_use->ref().is_done()) {
        slot->last_use.reset();
        return slot;
      }
    } catch (...) {
      put_back(*slot);
      throw;
    }
    put_back(*slot);
  }
}

StagingRing::Slot* StagingRing::hold_oldest() {
  for (;;) {
    const MutexLock lock(mutex_);
    Slot* oldest = nullptr;
    for (Slot& slot : slots_) {
      if (slot.held || !slot.memory) continue;
      if (oldest == nullptr || slot.released_at < oldest->released_at) oldest = &slot;
    }
    if (oldest != nullptr) {
      oldest->held = true;
      return oldest;
    }
    slot_released_.wait(mutex_);  // other threads hold them all, for the time of a memcpy
  }
}

void StagingRing::put_back(Slot& slot) noexcept {
  const MutexLock lock(mutex_);
  slot.held = false;
  slot_released_.notify_one();
}

void StagingRing::release(Slot& slot, StreamRef stream) noexcept {
  try {
    slot.last_use.emplace(events_.acquire());
    slot.last_use->ref().record(stream);
  } catch (const Error& error) {
    // Without a mark, waiting is what is left to know that the slot is out of use.
    slot.last_use.reset();
    context_.driver().report(Severity::warning, error.what());
    settle(stream);
  }
  const MutexLock lock(mutex_);
  slot.released_at = ++releases_;
  slot.held = false;
  slot_released_.notify_one();
}

}  // namespace berth
