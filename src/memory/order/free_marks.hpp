// SPDX-License-Identifier: Apache-2.0
// Marks in one stream's work that cover the frees on it so far: an event, and the heap's serial at
// the time of the record. They show which freed memory has no more work pending, without using the
// stream's handle again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to. Allocates no memory.
class FreeMarks {
 public:
  struct Mark {
    SharedEvent event;
    std::uint64_t serial = 0;  ///< BlockHeap::serial() before the event was recorded
  };

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] const Mark& oldest() const { return marks_[0]; }
  [[nodiscard]] const Mark& newest() const { return marks_[count_ - 1]; }
  /// Frees up to this serial are known to have no work pending.
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  /// Frees up to this serial are covered by a mark, completed or not.
  [[nodiscard]] std::uint64_t covered() const { return empty() ? completed_ : newest().serial; }

  /// If there are too many, every second mark is dropped; the next one covers its frees.
  void add(SharedEvent event, std::uint64_t serial) noexcept {
    BERTH_CHECK(serial >= covered());
    if (count_ == kMarksMax) {
      for (std::size_t kept = 0; kept < kMarksMax / 2; ++kept) {
        marks_[kept] = std::move(marks_[2 * kept + 1]);
      }
      count_ = kMarksMax / 2;
    }
    marks_[count_++] = {std::move(event), serial};
  }
  /// The work before the mark of `serial` is done.
  void complete(std::uint64_t serial) noexcept {
    BERTH_CHECK(serial <= covered());
    completed_ = std::max(completed_, serial);
    std::size_t gone = 0;
    while (gone < count_ && marks_[gone].serial <= completed_) ++gone;
    for (std::size_t index = gone; index < count_; ++index) {
      marks_[index - gone] = std::move(marks_[index]);
    }
    for (std::size_t index = count_ - gone; index < count_; ++index) marks_[index] = {};
    count_ -= gone;
  }

 private:
  static constexpr std::size_t kMarksMax = 8;

  std::array<Mark, kMarksMax> marks_{};  ///< in the order of their serials
  std::size_t count_ = 0;
  std::uint64_t completed_ = 0;
};

}  // namespace berth
