// SPDX-License-Identifier: Apache-2.0
#include "pinned/pinned_owners.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "berth/pinned_allocator.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "base/per_process.hpp"
#include "pinned/pinned_heaps.hpp"

namespace berth {
namespace {

struct Owners {
  Mutex mutex;
  std::vector<PinnedHeaps*> all BERTH_GUARDED_BY(mutex);
  std::atomic<std::size_t> count = 0;  ///< of them
};

constinit PerProcess<Owners> owners;

}  // namespace

void add_pinned_owner(PinnedHeaps& heaps) {
  Owners& known = owners.get();
  const MutexLock lock(known.mutex);
  BERTH_CHECK(std::ranges::find(known.all, &heaps) == known.all.end());
  known.all.push_back(&heaps);
  known.count.store(known.all.size(), std::memory_order_relaxed);
}

void remove_pinned_owner(PinnedHeaps& heaps) noexcept {
  Owners* const known = owners.find();
  BERTH_CHECK(known != nullptr);
  const MutexLock lock(known->mutex);
  const std::size_t erased = std::erase(known->all, &heaps);
  BERTH_CHECK(erased == 1);  // or another Runtime would use the heaps after their end
  known->count.store(known->all.size(), std::memory_order_relaxed);
}

std::optional<PinnedOwner> find_pinned_owner(const void* data) {
  Owners* const known = owners.find();
  if (known == nullptr) return std::nullopt;
  const MutexLock lock(known->mutex);
  for (PinnedHeaps* heaps : known->all) {
    const FoundBlock found = heaps->look_up(data);
    if (found.block != nullptr || heaps->owns(data))
      return PinnedOwner{heaps, found.block, found.bytes};
  }
  return std::nullopt;
}

bool has_several_pinned_owners() noexcept {
  Owners* const known = owners.find();
  return known != nullptr && known->count.load(std::memory_order_relaxed) > 1;
}

FoundBlock PinnedLookup::look_up(const PinnedAllocator& pinned, const void* data) {
  return pinned.heaps_ ? pinned.heaps_->look_up(data) : FoundBlock{};
}

void record_pinned_use(PinnedHeaps& owner, void* data, StreamRef stream) {
  owner.record_use(data, StreamRef(owner.registry().context(stream.device()), stream.native()));
}

}  // namespace berth
