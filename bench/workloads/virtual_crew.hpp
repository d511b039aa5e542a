// SPDX-License-Identifier: Apache-2.0
// Threads that copy, in virtual time: each takes pieces of staged copies as a real one would, and a
// piece takes as long as its bytes do at a given rate, or on a given disk. One real thread
// simulates all of them, so that one program takes the same time in every run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "copy/staged/host_work.hpp"
#include "sim/simulator.hpp"

namespace berth::bench {

/// The time at which a thread completes a piece of `bytes` that it takes at `now_ns`.
using PieceEnd = std::function<std::uint64_t(std::uint64_t now_ns, std::size_t bytes)>;

inline std::uint64_t ns_at(double bytes_per_ns, std::size_t bytes) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_ns));
}
/// Each thread copies independently.
inline PieceEnd by_copying(double bytes_per_ns) {
  return
      [=](std::uint64_t now_ns, std::size_t bytes) { return now_ns + ns_at(bytes_per_ns, bytes); };
}
/// All wait for one disk, which serves one request at a time and takes at least `latency_ns`.
inline PieceEnd by_a_disk(double bytes_per_ns, std::uint64_t latency_ns) {
  return [=, busy_until = std::make_shared<std::uint64_t>(0)](std::uint64_t now_ns,
                                                              std::size_t bytes) {
    *busy_until = std::max(*busy_until, now_ns + latency_ns) + ns_at(bytes_per_ns, bytes);
    return *busy_until;
  };
}

class VirtualCrew {
 public:
  /// The period at which an idle thread polls the device.
  static constexpr std::uint64_t kLookNs = 1'000;

  VirtualCrew(sim::Simulator& simulator, HostWork& work, std::size_t threads, PieceEnd piece_end)
      : simulator_(simulator), work_(work), lanes_(threads), piece_end_(std::move(piece_end)) {}

  /// Runs until no copy is pending; returns the virtual time.
  std::uint64_t run() {
    while (work_.copies_under_way() > 0) step();
    return simulator_.now_ns();
  }
  /// Advances virtual time until a thread completes a piece or polls.
  void step() {
    std::uint64_t next = simulator_.now_ns() + kLookNs;
    for (const Lane& lane : lanes_) {
      if (lane.task && lane.end_ns < next) next = lane.end_ns;
    }
    if (next > simulator_.now_ns()) simulator_.spend(next - simulator_.now_ns());
    catch_up();
    work_.poll_progress();
  }
  /// Applies the work that the threads have completed by now.
  void catch_up() {
    for (Lane& lane : lanes_) {
      while (lane.task && lane.end_ns <= simulator_.now_ns()) {
        finish(lane);
        take(lane, lane.end_ns);
      }
      if (!lane.task) take(lane, simulator_.now_ns());
    }
  }

 private:
  struct Lane {
    std::optional<HostWork::Task> task;
    std::uint64_t end_ns = 0;
  };

  void take(Lane& lane, std::uint64_t now_ns) {
    lane.task = work_.take();
    if (!lane.task) return;
    lane.end_ns = piece_end_(now_ns, lane.task->piece.bytes);
  }
  void finish(Lane& lane) {
    lane.task->move();
    work_.finish(*lane.task);
    lane.task.reset();
  }

  sim::Simulator& simulator_;
  HostWork& work_;
  std::vector<Lane> lanes_;
  const PieceEnd piece_end_;
};

}  // namespace berth::bench
