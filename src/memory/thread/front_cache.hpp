// SPDX-License-Identifier: Apache-2.0
// Freed blocks of one stream that one thread caches for its next requests of the same sizes: a
// stack for each size, so that the most recently used block is allocated first. The stacks are in a
// hash table with two places for each size. A size whose places are both taken is not cached.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "berth/allocator.hpp"

#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"
#include "heap/block.hpp"

namespace berth {

/// Guarded by the lock of the ThreadCache that it belongs to.
class FrontCache {
 public:
  /// Blocks of one size.
  class Stack {
   public:
    [[nodiscard]] std::size_t bytes() const { return std::size_t{units_} * kBlockAlignment; }
    [[nodiscard]] bool empty() const { return top_ == nullptr; }

    Block& pop() {
      Block& block = *top_;
      top_ = block.below;
      block.uses = {0, 0};
      return block;
    }

   private:
    friend FrontCache;
    std::uint32_t units_ = 0;  ///< of kBlockAlignment each
    bool is_listed_ = false;   ///< in FrontCache::listed_
    Block* top_ = nullptr;
  };

  explicit FrontCache(OwnerId owner) : owner_(owner) {}

  [[nodiscard]] OwnerId owner() const { return owner_; }

  /// The blocks of the rounded size of `bytes`; null if there are none.
  Stack* find(std::size_t bytes) {
    const std::size_t units = (bytes + (kBlockAlignment - 1)) / kBlockAlignment;
    Stack* stack = &first_place(units);
    if (stack->units_ != units) [[unlikely]]
      stack = &other_place(*stack);
    return stack->units_ == units && !stack->empty() ? stack : nullptr;
  }
  /// The stack for `bytes`, a multiple of kBlockAlignment; null if the size has no place.
  Stack* place(std::size_t bytes) {
    const std::size_t units = bytes / kBlockAlignment;
    Stack& first = first_place(units);
    if (first.units_ == units) [[likely]]
      return &first;
    Stack& second = other_place(first);
    if (second.units_ == units) return &second;
    Stack& free = first.empty() ? first : second;
    if (!free.empty() || units > kUnitsMax) return nullptr;
    free.units_ = static_cast<std::uint32_t>(units);
    return &free;
  }

  void push(Stack& stack, Block& block) {
    BERTH_DCHECK(block.state() == Block::State::cached);
    BERTH_DCHECK(block.owner == owner_ && block.bytes == stack.bytes());
    if (!stack.is_listed_) [[unlikely]]
      list(stack);
    block.below = stack.top_;
    stack.top_ = &block;
  }

  /// Moves all blocks of another cache's stack, of the same size, to one of this cache's.
  void take_all(Stack& stack, Stack& from) {
    BERTH_DCHECK(stack.bytes() == from.bytes());
    if (from.empty()) return;
    if (!stack.is_listed_) list(stack);
    while (!stack.empty()) {  // on top, because they were used last
      Block& block = stack.pop();
      block.below = from.top_;
      from.top_ = &block;
    }
    std::swap(stack.top_, from.top_);
  }
  /// Moves all blocks to another cache of the same owner. Passes blocks whose size has no place
  /// there to visit(Block&).
  template <class Visit>
  void move_to(FrontCache& other, const Visit& visit) {
    BERTH_DCHECK(other.owner_ == owner_);
    for (std::size_t index = 0; index < listed_count_; ++index) {
      Stack& stack = stacks_[listed_[index]];
      stack.is_listed_ = false;
      if (stack.empty()) continue;
      if (Stack* const place = other.place(stack.bytes())) {
        other.take_all(*place, stack);
      } else {
        while (!stack.empty()) visit(stack.pop());
      }
    }
    listed_count_ = 0;
  }

  /// Whether a block was cached since the last flush.
  [[nodiscard]] bool was_used() const { return listed_count_ > 0; }
  /// Empties the cache and passes each block to visit(Block&).
  template <class Visit>
  void flush(const Visit& visit) {
    for (std::size_t index = 0; index < listed_count_; ++index) {
      Stack& stack = stacks_[listed_[index]];
      stack.is_listed_ = false;
      while (!stack.empty()) visit(stack.pop());
    }
    listed_count_ = 0;
  }

 private:
  static constexpr int kStackBits = 9;
  static constexpr std::size_t kUnitsMax = ~std::uint32_t{0};

  Stack& first_place(std::size_t units) { return stacks_[fibonacci_hash(units, kStackBits)]; }
  Stack& other_place(Stack& place) {
    return stacks_[static_cast<std::size_t>(&place - stacks_.data()) ^ 1];
  }

  void list(Stack& stack) {
    stack.is_listed_ = true;
    listed_[listed_count_++] = static_cast<std::uint16_t>(&stack - stacks_.data());
  }

  std::array<Stack, std::size_t{1} << kStackBits> stacks_{};
  std::array<std::uint16_t, std::size_t{1} << kStackBits> listed_{};  ///< stacks to be flushed
  std::size_t listed_count_ = 0;
  const OwnerId owner_;
};

/// A FrontCache for each owner, which stays at its address until the owner is dropped.
/// Threads  Guarded by its holder.
class FrontCaches {
 public:
  [[nodiscard]] FrontCache* find(OwnerId owner) const {
    for (const auto& front : fronts_) {
      if (front->owner() == owner) return front.get();
    }
    return nullptr;
  }
  /// The same, created if there is none.
  /// Errors  std::bad_alloc: nothing is changed.
  FrontCache& of(OwnerId owner) {
    if (FrontCache* const front = find(owner)) return *front;
    return *fronts_.emplace_back(std::make_unique<FrontCache>(owner));
  }
  /// The same; null if the host has no memory.
  FrontCache* try_get_or_make(OwnerId owner) noexcept {
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
  /// Whether a block of `owner` was cached since the last flush.
  [[nodiscard]] bool keeps(OwnerId owner) const {
    const FrontCache* const front = find(owner);
    return front != nullptr && front->was_used();
  }

  // These pass cached blocks to visit(Block&).

  /// All blocks.
  template <class Visit>
  void flush(const Visit& visit) {
    for (const auto& front : fronts_) front->flush(visit);
  }
  /// The blocks of one owner. False if none was cached since the last flush.
  template <class Visit>
  bool flush(OwnerId owner, const Visit& visit) {
    FrontCache* const front = find(owner);
    if (front == nullptr || !front->was_used()) return false;
    front->flush(visit);
    return true;
  }
  /// The same, and removes the owner.
  template <class Visit>
  void drop(OwnerId owner, const Visit& visit) {
    flush(owner, visit);
    std::erase_if(fronts_, [&](const auto& front) { return front->owner() == owner; });
  }

 private:
  std::vector<std::unique_ptr<FrontCache>> fronts_;
};

}  // namespace berth
