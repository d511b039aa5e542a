// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/check.hpp"

namespace berth {

/// Idle items of a pool, in LIFO order. The list is intrusive, so push() cannot fail.
/// Threads  Guarded by its holder.
template <class Item>
class IdleList {
 public:
  void push(Item& item) {
    BERTH_DCHECK(top_ != &item);
    item.below = top_;
    top_ = &item;
    ++count_;
  }
  /// Null if there is none.
  Item* pop() {
    Item* const item = top_;
    BERTH_DCHECK((item == nullptr) == (count_ == 0));
    if (item == nullptr) return nullptr;
    top_ = item->below;
    --count_;
    return item;
  }
  /// Moves the last `count` to `to`; all if there are fewer.
  void move_to(IdleList& to, std::size_t count) {
    for (; count > 0 && top_ != nullptr; --count) to.push(*pop());
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  Item* top_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace berth
