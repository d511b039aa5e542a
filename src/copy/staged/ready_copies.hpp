// SPDX-License-Identifier: Apache-2.0
// The pending copies that have a piece to move: the highest priority first, and copies of equal
// priority round-robin by piece, so that a small copy is not delayed by a large one. Finding a copy
// takes constant time.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>

namespace berth {

class StagedCopy;

/// Threads  Guarded by the lock of the HostWork.
class ReadyCopies {
 public:
  using CopyPtr = std::shared_ptr<StagedCopy>;

  /// Copies of one priority.
  struct Level {
    std::list<CopyPtr> ready;  ///< in the order of their turns
    std::list<CopyPtr> others;
  };
  using Levels = std::map<int, Level>;

  /// The position of a copy.
  struct Place {
    Levels::iterator level;
    std::list<CopyPtr>::iterator at;
    bool is_ready = false;
  };

  /// Lower priorities go first. update() follows when there is something to move.
  /// Errors  std::bad_alloc: nothing is changed.
  void add(const CopyPtr& copy, int priority);
  void remove(StagedCopy& copy) noexcept;
  /// Called when the copy may have gained its first piece or lost its last one. True if it has a
  /// piece now, and had none before.
  bool update(StagedCopy& copy) noexcept;
  /// The next copy in round-robin order; null if no copy has a piece.
  CopyPtr next() noexcept;

  [[nodiscard]] bool has_any() const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Levels levels_;  ///< those with copies
  std::size_t size_ = 0;
};

}  // namespace berth
