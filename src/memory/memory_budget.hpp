// SPDX-License-Identifier: Apache-2.0
// The reserved memory of a pool, or of all pools of a device, and its limits. Memory that a pool
// reserves counts for its device as well.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
class MemoryBudget {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  struct Limits {
    std::size_t max = kNoLimit;
    std::size_t soft_max = kNoLimit;
    std::size_t capacity = kNoLimit;  ///< memory of the device minus the headroom
  };

  /// `whole`: the budget that includes this one and must outlive it, or null.
  explicit MemoryBudget(const Limits& limits, MemoryBudget* whole = nullptr) : whole_(whole) {
    set_limits(limits);
  }
  ~MemoryBudget() {
    if (whole_ != nullptr) whole_->give_back(reserved());
  }
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  void set_limits(const Limits& limits) {
    limit_.store(limits.max, std::memory_order_relaxed);
    max_.store(std::min(limits.max, limits.capacity), std::memory_order_relaxed);
    soft_max_.store(limits.soft_max, std::memory_order_relaxed);
    ++root().room_increases_;  // there may be more room now
  }

  /// Counts `bytes` as reserved, unless that would exceed the limit here or of the whole.
  [[nodiscard]] bool try_reserve(std::size_t bytes) {
    std::size_t reserved = reserved_.load(std::memory_order_relaxed);
    do {
      if (bytes > room(max_, reserved)) return false;
    } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes));
    if (whole_ == nullptr || whole_->try_reserve(bytes)) return true;
    reserved_.fetch_sub(bytes);
    return false;
  }
  /// Counts memory that exists, even beyond the limit.
  void add(std::size_t bytes) {
    reserved_.fetch_add(bytes);
    if (whole_ != nullptr) whole_->add(bytes);
  }
  void give_back(std::size_t bytes) {
    const std::size_t reserved = reserved_.fetch_sub(bytes);
    BERTH_CHECK(reserved >= bytes);  // bytes are given back once
    if (whole_ != nullptr) whole_->give_back(bytes);
  }
  /// The same for memory that was returned to the driver, if there is any.
  void release(std::size_t bytes) {
    if (bytes == 0) return;
    give_back(bytes);
    ++root().room_increases_;
  }
  /// The number of returns by release() and of changes of limits, anywhere in the whole.
  [[nodiscard]] std::uint64_t room_increases() const { return root().room_increases_; }

  /// Bytes by which `bytes` more would exceed the limit here or of the whole.
  [[nodiscard]] std::size_t beyond_max(std::size_t bytes) const {
    const std::size_t left = room(max_, reserved());
    const std::size_t beyond = bytes > left ? bytes - left : 0;
    return whole_ == nullptr ? beyond : std::max(beyond, whole_->beyond_max(bytes));
  }

  /// Bytes by which `bytes` more would exceed the soft limit here or of the whole.
  [[nodiscard]] std::size_t beyond_soft_max(std::size_t bytes) const {
    const std::size_t left = room(soft_max_, reserved());
    const std::size_t beyond = bytes > left ? bytes - left : 0;
    return whole_ == nullptr ? beyond : std::max(beyond, whole_->beyond_soft_max(bytes));
  }

  /// The same for the whole alone.
  [[nodiscard]] std::size_t whole_beyond_soft_max(std::size_t bytes) const {
    return whole_ == nullptr ? 0 : whole_->beyond_soft_max(bytes);
  }
  /// Whether `bytes` more fit into the limit here, regardless of the whole.
  [[nodiscard]] bool has_own_room(std::size_t bytes) const {
    return bytes <= room(max_, reserved());
  }
  /// Bytes that other parts of the whole must return so that `bytes` more fit, including bytes
  /// reserved beyond a limit that was lowered.
  [[nodiscard]] std::size_t reclaim_target_bytes(std::size_t bytes) const {
    if (whole_ == nullptr) return bytes;
    const std::size_t limit = whole_->max();
    const std::size_t reserved = whole_->reserved();
    return bytes + (reserved > limit ? reserved - limit : 0);
  }

  /// Reserved bytes beyond the soft limit.
  [[nodiscard]] std::size_t excess() const {
    const std::size_t limit = soft_max_.load(std::memory_order_relaxed);
    const std::size_t own = reserved() > limit ? reserved() - limit : 0;
    return whole_ == nullptr ? own : std::max(own, whole_->excess());
  }

  /// Exists during growth or return, while reserved memory is not in a heap.
  class Change {
   public:
    explicit Change(MemoryBudget& budget) : budget_(budget.root()) {
      const MutexLock lock(budget_.changes_mutex_);
      ++budget_.changes_under_way_;
    }
    ~Change() {
      const MutexLock lock(budget_.changes_mutex_);
      BERTH_CHECK(budget_.changes_under_way_ > 0);
      --budget_.changes_under_way_;
      ++budget_.change_count_;
      budget_.changed_.notify_all();
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    MemoryBudget& budget_;
  };
  /// Waits for the end of a Change anywhere in the whole; false if there is none. Not within a
  /// Change.
  bool wait_for_changes() {
    MemoryBudget& all = root();
    const MutexLock lock(all.changes_mutex_);
    if (all.changes_under_way_ == 0) return false;
    const std::uint64_t made = all.change_count_;
    while (all.change_count_ == made) all.changed_.wait(all.changes_mutex_);
    return true;
  }

  [[nodiscard]] std::size_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  /// The same in the other parts of the whole.
  [[nodiscard]] std::size_t reserved_by_others() const {
    const std::size_t own = reserved();
    return std::max(root().reserved(), own) - own;
  }
  /// The limit here or of the whole, regardless of the capacity; kNoLimit: none.
  [[nodiscard]] std::size_t limit() const {
    const std::size_t own = limit_.load(std::memory_order_relaxed);
    return whole_ == nullptr ? own : std::min(own, whole_->limit());
  }
  /// Bytes that may be reserved here now.
  [[nodiscard]] std::size_t room() const {
    const std::size_t own = room(max_, reserved());
    return whole_ == nullptr ? own : std::min(own, whole_->room());
  }
  /// The maximum that may be reserved here if the other parts are empty.
  [[nodiscard]] std::size_t max() const {
    const std::size_t own = max_.load(std::memory_order_relaxed);
    return whole_ == nullptr ? own : std::min(own, whole_->max());
  }

 private:
  static std::size_t room(const std::atomic<std::size_t>& limit, std::size_t reserved) {
    const std::size_t bytes = limit.load(std::memory_order_relaxed);
    return bytes > reserved ? bytes - reserved : 0;
  }

  MemoryBudget& root() { return whole_ == nullptr ? *this : whole_->root(); }
  [[nodiscard]] const MemoryBudget& root() const {
    return whole_ == nullptr ? *this : whole_->root();
  }

  MemoryBudget* const whole_;
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> max_;  ///< the limit, or the capacity
  std::atomic<std::size_t> soft_max_;
  std::atomic<std::size_t> reserved_ = 0;
  std::atomic<std::uint64_t> room_increases_ = 0;
  Mutex changes_mutex_;
  ConditionVariable changed_;
  int changes_under_way_ BERTH_GUARDED_BY(changes_mutex_) = 0;
  std::uint64_t change_count_ BERTH_GUARDED_BY(changes_mutex_) = 0;
};

}  // namespace berth
