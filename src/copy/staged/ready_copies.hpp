// SPDX-License-Identifier: Apache-2.0
// The copies under way of which there is something to move now: the most urgent first, and those
// that are as urgent in turns, a piece each, so that a small copy is not behind a large one. To
// find one takes the same time however many copies are under way.
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

  /// Where a copy stands.
  struct Place {
    Levels::iterator level;
    std::list<CopyPtr>::iterator at;
    bool is_ready = false;
  };

  /// Lower priorities first. update() follows once there is something to move.
  /// Errors  std::bad_alloc: nothing is changed.
  void add(const CopyPtr& copy, int priority);
  void remove(StagedCopy& copy) noexcept;
  /// Where that has changed: whether the copy has a piece now. True where it has, and had none
  /// before.
  bool update(StagedCopy& copy) noexcept;
  /// Whose turn it is; null where no copy has a piece. The copy has its next turn after the others.
  CopyPtr next() noexcept;

  [[nodiscard]] bool has_any() const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Levels levels_;  ///< none without copies
  std::size_t size_ = 0;
};

}  // namespace berth
