// SPDX-License-Identifier: Apache-2.0
// The FrontCaches of one holder, one for each owner.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "memory/thread/front_cache.hpp"

namespace berth {

/// Guarded as its holder says. A FrontCache stays at its address until its owner is dropped.
class FrontCaches {
 public:
  [[nodiscard]] FrontCache* find(OwnerId owner) const {
    for (const auto& front : fronts_) {
      if (front->owner() == owner) return front.get();
    }
    return nullptr;
  }
  /// The same, made where there is none.
  /// Errors  std::bad_alloc: nothing is changed.
  FrontCache& of(OwnerId owner) {
    if (FrontCache* const front = find(owner)) return *front;
    return *fronts_.emplace_back(std::make_unique<FrontCache>(owner));
  }
  /// The same; null where the host has no memory for it.
  FrontCache* try_of(OwnerId owner) noexcept {
    try {
      return &of(owner);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  [[nodiscard]] std::size_t count() const { return fronts_.size(); }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& front : fronts_) visit(*front);
  }
  /// Whether anything of `owner`'s was kept since the last flush.
  [[nodiscard]] bool keeps(OwnerId owner) const {
    const FrontCache* const front = find(owner);
    return front != nullptr && front->was_used();
  }

  // These call visit(Block&) for blocks that were kept, and are the visitor's then.
  /// All of them.
  template <class Visit>
  void flush(const Visit& visit) {
    for (const auto& front : fronts_) front->flush(visit);
  }
  /// Those of one owner. False where none was kept since the last flush.
  template <class Visit>
  bool flush(OwnerId owner, const Visit& visit) {
    FrontCache* const front = find(owner);
    if (front == nullptr || !front->was_used()) return false;
    front->flush(visit);
    return true;
  }
  /// The same for an owner who does not come back.
  template <class Visit>
  void drop(OwnerId owner, const Visit& visit) {
    flush(owner, visit);
    std::erase_if(fronts_, [&](const auto& front) { return front->owner() == owner; });
  }

 private:
  std::vector<std::unique_ptr<FrontCache>> fronts_;
};

}  // namespace berth
