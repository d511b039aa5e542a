// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace berth {

/// Idle items of a pool, last in first out, linked through themselves: to add one cannot fail.
/// Guarded as its holder says.
template <class Item>
class IdleList {
 public:
  void push(Item& item) {
    item.below = top_;
    top_ = &item;
    ++count_;
  }
  /// Null where there is none.
  Item* pop() {
    Item* const item = top_;
    if (item == nullptr) return nullptr;
    top_ = item->below;
    --count_;
    return item;
  }
  /// Moves the last `count` to `to`; all where there are fewer.
  void move_to(IdleList& to, std::size_t count) {
    for (; count > 0 && top_ != nullptr; --count) to.push(*pop());
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  Item* top_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace berth
