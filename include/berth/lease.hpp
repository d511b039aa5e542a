// SPDX-License-Identifier: Apache-2.0
// The lease of a pooled stream or event.
#pragma once

#include <utility>

#include "berth/cpp20.hpp"

namespace berth {

/// Holds one item of a pool; the destructor returns it. Movable; a moved-from lease holds nothing.
/// Must not outlive its pool, which belongs to the Runtime.
/// Threads  One thread at a time. May be released on another thread than it was acquired on.
template <class Pool>
class [[nodiscard]] Lease {
 public:
  using Ref = typename Pool::Ref;
  using Item = typename Pool::Item;

  /// For pools.
  Lease(Pool& pool, Item& item) noexcept : pool_(&pool), item_(&item) {}
  ~Lease() { give_back(); }
  Lease(Lease&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), item_(other.item_) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      give_back();
      pool_ = std::exchange(other.pool_, nullptr);
      item_ = other.item_;
    }
    return *this;
  }

  [[nodiscard]] Ref ref() const noexcept { return item_->ref; }
  /// Gives up the lease and returns the stream or event, which the caller must return with
  /// Pool::give_back().
  [[nodiscard]] Ref release() noexcept {
    pool_ = nullptr;
    return item_->ref;
  }
  operator Ref() const noexcept { return item_->ref; }  // NOLINT: a lease serves as a reference
  const Ref* operator->() const noexcept { return &item_->ref; }

 private:
  void give_back() noexcept {
    if (pool_ != nullptr) std::exchange(pool_, nullptr)->give_back(*item_);
  }

  Pool* pool_;
  Item* item_;
};

}  // namespace berth
