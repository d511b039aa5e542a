// SPDX-License-Identifier: Apache-2.0
// A naive model of what is ordered before what: for each stream a count of its pieces of work, and
// for each moment how many of each stream come before it. It knows streams, marks, waits and the
// host, and nothing of how berth establishes an order.
//
// Each piece of work says when it runs, and then everything that the model has before it must have
// run.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/functions.hpp"

namespace berth::test {

/// One stream of the model.
using Lane = std::size_t;

/// The piece of work number `number` of a lane, from 1.
struct Work {
  Lane lane = 0;
  std::uint64_t number = 0;
};

/// What comes before a moment.
class Before {
 public:
  [[nodiscard]] std::uint64_t count(Lane lane) const {
    return lane < counts_.size() ? counts_[lane] : 0;
  }
  [[nodiscard]] bool includes(Work work) const { return count(work.lane) >= work.number; }
  void include(Work work) {
    if (counts_.size() <= work.lane) counts_.resize(work.lane + 1);
    if (counts_[work.lane] < work.number) counts_[work.lane] = work.number;
  }
  void include(const Before& other) {
    for (Lane lane = 0; lane < other.counts_.size(); ++lane) include({lane, other.counts_[lane]});
  }
  [[nodiscard]] std::size_t lanes() const { return counts_.size(); }

 private:
  std::vector<std::uint64_t> counts_;
};

/// How a lane stands to the legacy default stream of its device.
enum class LaneKind : std::uint8_t { apart, blocking, legacy };

/// Must outlive the work. One thread at a time, but for what the work itself does when it runs, and
/// first_problem() and is_done().
class WorkOrder {
 public:
  Lane new_lane(int device, LaneKind kind) {
    REQUIRE(lanes_.size() < kLanesMax);
    lanes_.push_back({device, kind, {}, {}});
    return lanes_.size() - 1;
  }

  /// The stream is gone: its work goes on, and the legacy default stream need not wait for it.
  void retire(Lane lane) { lanes_[lane].kind = LaneKind::apart; }

  /// What a mark put on the lane now stands for.
  [[nodiscard]] const Before& mark(Lane lane) const { return lanes_[lane].before; }
  /// What work that is submitted to the lane now comes after.
  [[nodiscard]] Before before_next(Lane lane) const {
    Before before = lanes_[lane].before;
    before.include(seen_by_host_);
    for (const LaneState& other : lanes_) {
      if (waits_by_default(lanes_[lane], other)) before.include(other.before_last_work);
    }
    return before;
  }
  /// What is submitted to `waiter` from now on comes after `mark`.
  void wait(Lane waiter, const Before& mark) { lanes_[waiter].before.include(mark); }
  /// The host knows that all of it has run.
  void host_sees(const Before& mark) { seen_by_host_.include(mark); }
  /// The host has waited for everything.
  void host_sees_all() {
    for (const LaneState& lane : lanes_) host_sees(lane.before);
  }

  Work submit(Lane lane) {
    Before before = before_next(lane);
    const Work work{lane, before.count(lane) + 1};
    entries_.push_back({this, work, before});
    before.include(work);
    lanes_[lane].before_last_work = before;
    lanes_[lane].before = std::move(before);
    return work;
  }
  /// For cuLaunchHostFunc, to be submitted behind the work that submit() stood for last.
  [[nodiscard]] void* last_submitted() { return &entries_.back(); }
  static void CUDA_CB run(void* data) {
    const auto& entry = *static_cast<const Entry*>(data);
    entry.order->ran(entry);
  }

  [[nodiscard]] bool is_done(const Before& mark) const {
    for (Lane lane = 0; lane < mark.lanes(); ++lane) {
      if (done_[lane].load() < mark.count(lane)) return false;
    }
    return true;
  }
  /// Empty where all work ran in its order. From any thread.
  [[nodiscard]] std::string first_problem() const {
    const std::lock_guard lock(problem_mutex_);
    return problem_;
  }

 private:
  static constexpr std::size_t kLanesMax = 2048;

  struct LaneState {
    int device;
    LaneKind kind;
    Before before;
    Before before_last_work;  ///< with that work
  };
  struct Entry {
    WorkOrder* order;
    Work work;
    Before before;
  };

  static bool waits_by_default(const LaneState& lane, const LaneState& other) {
    if (lane.device != other.device) return false;
    return (lane.kind == LaneKind::legacy && other.kind == LaneKind::blocking) ||
           (lane.kind == LaneKind::blocking && other.kind == LaneKind::legacy);
  }

  void ran(const Entry& entry) {
    if (!is_done(entry.before)) {
      const std::lock_guard lock(problem_mutex_);
      if (problem_.empty()) {
        problem_ = "work " + std::to_string(entry.work.number) + " of stream " +
                   std::to_string(entry.work.lane) + " ran before what comes before it";
      }
    }
    done_[entry.work.lane].store(entry.work.number);
  }

  std::deque<LaneState> lanes_;
  std::deque<Entry> entries_;
  Before seen_by_host_;
  std::array<std::atomic<std::uint64_t>, kLanesMax> done_{};
  mutable std::mutex problem_mutex_;
  std::string problem_;
};

/// Bytes that work reads and writes, protected by nothing but the order of that work.
struct SharedBytes {
  CUdeviceptr address = 0;
  int device = 0;
  bool on_host = false;  ///< pinned: for the streams of every device
  Work last_write = {};
  std::vector<Work> reads = {};  ///< since then

  /// What must come before a use.
  [[nodiscard]] std::vector<Work> conflicts(bool writes) const {
    std::vector<Work> conflicts;
    if (writes) conflicts = reads;
    if (last_write.number > 0) conflicts.push_back(last_write);
    return conflicts;
  }
  void used(Work work, bool writes) {
    if (writes) {
      last_write = work;
      reads.clear();
    } else {
      reads.push_back(work);
    }
  }
};

}  // namespace berth::test
