// SPDX-License-Identifier: Apache-2.0
// A FIFO queue of operations, in blocks: an operation does not move while it is queued, and a queue
// that never exceeds one block calls the heap once. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "sim/work/operation.hpp"

namespace berth::sim {

class OperationQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  Operation& front() { return blocks_.front()[head_]; }
  [[nodiscard]] const Operation& front() const { return blocks_.front()[head_]; }
  /// Calls `visit` with each operation, in order.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit_all(*this, visit);
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    visit_all(*this, visit);
  }

  void push(Operation&& operation) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) add_block();
    blocks_.back().push_back(std::move(operation));
    ++size_;
  }

  void pop() {
    front().work = WaitWork{};  // frees staged content
    ++head_;
    --size_;
    if (size_ == 0)
      blocks_.front().clear();
    else if (head_ == kBlock)
      blocks_.pop_front();
    else
      return;
    head_ = 0;
  }

 private:
  static constexpr std::size_t kBlock = 16;

  void add_block() {
    std::vector<Operation> block;
    block.reserve(kBlock);
    blocks_.push_back(std::move(block));
  }

  template <class Queue, class Visit>
  static void visit_all(Queue& queue, Visit& visit) {
    std::size_t at = queue.head_;
    for (auto& block : queue.blocks_) {
      for (; at < block.size(); ++at) visit(block[at]);
      at = 0;
    }
  }

  std::deque<std::vector<Operation>> blocks_;  // each but the last is full
  std::size_t head_ = 0;                       // in the first block
  std::size_t size_ = 0;
};

}  // namespace berth::sim
