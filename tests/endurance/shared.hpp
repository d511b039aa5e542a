// SPDX-License-Identifier: Apache-2.0
// What the threads of one program have in common.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "endurance/books.hpp"
#include "endurance/machine.hpp"
#include "endurance/mode.hpp"

namespace berth::endurance {

/// Blocks that other threads have handed over to one.
class Inbox {
 public:
  void put(Parcel parcel) {
    const std::lock_guard lock(mutex_);
    parcels_.push_back(std::move(parcel));
    waiting_.store(parcels_.size(), std::memory_order_relaxed);
  }
  /// A glance: what is missed now is seen the next time.
  [[nodiscard]] std::size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<Parcel> take() {
    const std::lock_guard lock(mutex_);
    waiting_.store(0, std::memory_order_relaxed);
    return std::exchange(parcels_, {});
  }
  /// Only while no thread runs.
  [[nodiscard]] const std::vector<Parcel>& parcels() const { return parcels_; }

 private:
  std::mutex mutex_;
  std::atomic<std::size_t> waiting_ = 0;
  std::vector<Parcel> parcels_;
};

struct Shared {
  Shared(const Mode& mode_, Machine& machine_)
      : mode(mode_), machine(machine_), inboxes(mode_.threads) {
    for (StreamPlace& place : places) machine.replace(place);
  }

  const Mode& mode;
  Machine& machine;
  /// Streams that all threads use. They are replaced only while no thread runs.
  std::array<StreamPlace, 2> places;
  /// All free what they have and take little, so that the device becomes empty. Changed only while
  /// no thread runs.
  bool emptying = false;
  std::vector<Inbox> inboxes;  ///< one a thread
  std::mutex turn;             ///< of the thread that runs, where they take turns
};

}  // namespace berth::endurance
