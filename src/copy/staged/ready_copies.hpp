// SPDX-License-Identifier: Apache-2.0
// The pending copies with a piece to move now: the most urgent first, and equally urgent ones in
// turns of one piece, so that a small copy is not behind a large one. Finding one takes the same
// time however many copies are pending.
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
  /// To be called if the copy may have a piece that it had not before, or none any more. True if it
  /// has one now, and had none before.
  bool update(StagedCopy& copy) noexcept;
  /// The copy whose turn it is, which gets its next turn after the others; null if none has a
  /// piece.
  CopyPtr next() noexcept;

  [[nodiscard]] bool has_any() const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Levels levels_;  ///< those with copies
  std::size_t size_ = 0;
};

}  // namespace berth
