// SPDX-License-Identifier: Apache-2.0
// Blocks on their way from threads that free them to threads that allocate: a thread that frees more
// than it allocates leaves what it keeps here, a batch at a time, and one that has run out of a size
// takes all there is of it. Neither touches the blocks one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "memory/front_cache.hpp"
#include "memory/thread_cache.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class HandOver {
 public:
  /// Takes what `cache` keeps. Calls visit(Block&) for blocks whose size has no place here; they are
  /// the visitor's then.
  template <class Visit>
  void take_over(ThreadCache& cache, const Visit& visit) {
    cache.for_each_front([&](FrontCache& front) {
      if (front.was_used()) front.move_to(front_of(front.owner()), visit);
    });
  }
  /// One block of `owner`'s of `bytes`, a multiple of kBlockBytes; the others of this size go to
  /// `front`. Null where there is none.
  Block* take(OwnerId owner, std::size_t bytes, FrontCache& front);

  /// Whether anything of `owner`'s was left here since the last flush.
  [[nodiscard]] bool keeps(OwnerId owner) const {
    const FrontCache* const front = find(owner);
    return front != nullptr && front->was_used();
  }
  /// Calls visit(Block&) for all blocks, or those of one owner, which are the visitor's then.
  template <class Visit>
  void flush(const Visit& visit) {
    for (const auto& front : fronts_) front->flush(visit);
  }
  template <class Visit>
  void flush(OwnerId owner, const Visit& visit) {
    if (FrontCache* const front = find(owner)) front->flush(visit);
  }
  /// The same for an owner who does not come back.
  template <class Visit>
  void drop(OwnerId owner, const Visit& visit) {
    flush(owner, visit);
    std::erase_if(fronts_, [&](const auto& front) { return front->owner() == owner; });
  }

 private:
  [[nodiscard]] FrontCache* find(OwnerId owner) const;
  FrontCache& front_of(OwnerId owner);

  std::vector<std::unique_ptr<FrontCache>> fronts_;
};

}  // namespace berth
