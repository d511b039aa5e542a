// SPDX-License-Identifier: Apache-2.0
#include "memory/pinned/pinned_owners.hpp"

#include <vector>

#include "base/mutex.hpp"
#include "memory/pinned/pinned_heaps.hpp"

namespace berth {
namespace {

struct Owners {
  Mutex mutex;
  std::vector<PinnedHeaps*> all BERTH_GUARDED_BY(mutex);
};

/// Never destroyed: a Runtime may end while the process exits.
Owners& owners() {
  static Owners* const all = new Owners;
  return *all;
}

}  // namespace

void add_pinned_owner(PinnedHeaps& heaps) {
  Owners& known = owners();
  const MutexLock lock(known.mutex);
  known.all.push_back(&heaps);
}

void remove_pinned_owner(PinnedHeaps& heaps) noexcept {
  Owners& known = owners();
  const MutexLock lock(known.mutex);
  std::erase(known.all, &heaps);
}

std::optional<PinnedOwner> find_pinned_owner(const void* data) {
  Owners& known = owners();
  const MutexLock lock(known.mutex);
  for (PinnedHeaps* heaps : known.all) {
    if (!heaps->is_usable()) continue;  // of the process that this one was forked from
    if (void* block = heaps->find_block(data)) return PinnedOwner{heaps, block};
    if (heaps->owns(data)) return PinnedOwner{heaps, nullptr};
  }
  return std::nullopt;
}

void record_pinned_use(PinnedHeaps& owner, void* data, StreamRef stream) {
  owner.record_use(data, StreamRef(owner.registry().context(stream.device()), stream.native()));
}

}  // namespace berth
