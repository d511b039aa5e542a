// SPDX-License-Identifier: Apache-2.0
// Blocks on their way from threads that free them to threads that allocate. A thread that frees
// more than it allocates leaves its cached blocks here, a batch at a time, and a thread that has
// run out of a size takes all blocks of that size. Neither visits the blocks one by one.
#pragma once

#include <cstddef>

#include "memory/thread/front_cache.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class TransferCache {
 public:
  /// Takes what `cache` keeps. Calls visit(Block&), which must not throw, for blocks whose size has
  /// no place here, or for which the host has no memory; they are the visitor's then.
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
  /// One block of `owner`'s of `bytes`, a multiple of kBlockBytes; the others of this size go to
  /// `front`. Null where there is none.
  Block* take(OwnerId owner, std::size_t bytes, FrontCache& front);

  /// What was left here.
  [[nodiscard]] FrontCaches& fronts() { return fronts_; }

 private:
  FrontCaches fronts_;
};

}  // namespace berth
