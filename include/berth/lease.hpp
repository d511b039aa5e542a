// SPDX-License-Identifier: Apache-2.0
// The lease of a pooled stream or event.
#pragma once

#include <utility>

#include "berth/cpp20.hpp"
#include "berth/error.hpp"

namespace berth {

/// Holds one stream or event of a pool; the destructor returns it. Movable. Empty if
/// default-constructed, moved from or released: it then holds nothing. Must not outlive its pool,
/// which belongs to the Runtime: the end of the Runtime reports live leases, and their destructors
/// are undefined after it.
/// Threads  One thread at a time. May be released on another thread than it was acquired on.
template <class Pool>
class [[nodiscard]] Lease {
 public:
  using Ref = typename Pool::Ref;

  /// Empty.
  Lease() noexcept = default;
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

  /// Whether it holds a stream or event.
  explicit operator bool() const noexcept { return pool_ != nullptr; }
  /// Errors  InvalidArgument: empty; also of the functions below.
  [[nodiscard]] Ref ref() const { return item().ref; }
  operator Ref() const { return item().ref; }  // NOLINT: a lease serves as a reference
  const Ref* operator->() const { return &item().ref; }
  /// Gives up the lease and returns the stream or event, which the caller must return with
  /// Pool::give_back().
  [[nodiscard]] Ref release() {
    const Ref released = item().ref;
    pool_ = nullptr;
    return released;
  }

 private:
  friend Pool;
  using Item = typename Pool::Item;

  Lease(Pool& pool, Item& item) noexcept : pool_(&pool), item_(&item) {}
  [[nodiscard]] const Item& item() const {
    if (pool_ == nullptr) detail::refuse_empty("lease");
    return *item_;
  }
  void give_back() noexcept {
    if (pool_ != nullptr) std::exchange(pool_, nullptr)->give_back(*item_);
  }

  Pool* pool_ = nullptr;
  Item* item_ = nullptr;
};

}  // namespace berth
