// SPDX-License-Identifier: Apache-2.0
// The changes of one thread to the counters since its ledger was last applied, so that threads do
// not share counters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/memory_counters.hpp"

#include "memory/gauge.hpp"

namespace berth {

/// The change of a gauge, and its highest value on the way, relative to the start.
/// Threads  One.
class GaugeChange {
 public:
  void raise(std::size_t by) {
    change_ += static_cast<std::int64_t>(by);
    if (change_ > highest_) [[unlikely]]
      highest_ = change_;
  }
  void lower(std::size_t by) { change_ -= static_cast<std::int64_t>(by); }

  [[nodiscard]] std::int64_t change() const { return change_; }
  /// Applies the change to a gauge and resets it.
  void apply_to(Gauge& gauge) {
    move_gauge(gauge, change_, highest_);
    change_ = highest_ = 0;
  }

 private:
  std::int64_t change_ = 0;
  std::int64_t highest_ = 0;
};

/// Threads  One.
struct Ledger {
  void allocated(std::size_t requested, std::size_t rounded) {
    bytes_requested.raise(requested);
    bytes_allocated.raise(rounded);
    blocks_allocated.raise(1);
    ++allocations;
  }
  void freed(std::size_t requested, std::size_t rounded) {
    bytes_requested.lower(requested);
    bytes_allocated.lower(rounded);
    blocks_allocated.lower(1);
  }

  GaugeChange bytes_requested;
  GaugeChange bytes_allocated;
  /// The part of the change of blocks_allocated that bypassed the thread's cache.
  std::int64_t blocks_through_heap = 0;
  GaugeChange blocks_allocated;
  std::int64_t blocks_net = 0;  ///< total change of blocks_allocated that was applied
  std::uint64_t allocations = 0;
  /// The allocations that took a cached block other than the last one.
  std::uint64_t allocations_thread_cached = 0;
};

}  // namespace berth
