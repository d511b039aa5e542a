// SPDX-License-Identifier: Apache-2.0
// Transfers cached blocks from threads that free them to threads that allocate. A thread that frees
// more than it allocates leaves its cached blocks here in batches, and a thread that has run out of
// a size takes all blocks of that size. Neither visits the blocks one by one.
#pragma once

#include <cstddef>

#include "memory/thread/front_cache.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class TransferCache {
 public:
  /// Takes the blocks of `cache`. Passes blocks whose size has no place here, or for which the host
  /// has no memory, to visit(Block&), which must not throw.
  template <class Visit>
  void take_over(ThreadCache& cache, const Visit& visit) noexcept {
    cache.fronts().for_each([&](FrontCache& front) {
      if (!front.was_used()) return;
      if (FrontCache* const here = fronts_.try_get_or_make(front.owner())) {
        front.move_to(*here, visit);
      } else {
        front.flush(visit);
      }
    });
  }
  /// One block of `owner` of `bytes`, a multiple of kBlockAlignment; moves the others of this size
  /// to `front`. Null if there is none.
  Block* take(OwnerId owner, std::size_t bytes, FrontCache& front) {
    FrontCache* const here = fronts_.find(owner);
    FrontCache::Stack* const stack = here != nullptr ? here->find(bytes) : nullptr;
    if (stack == nullptr) return nullptr;
    Block& block = stack->pop();
    if (FrontCache::Stack* const place = front.place(bytes)) front.take_all(*place, *stack);
    return &block;
  }

  /// The blocks that are here.
  [[nodiscard]] FrontCaches& fronts() { return fronts_; }

 private:
  FrontCaches fronts_;
};

}  // namespace berth
