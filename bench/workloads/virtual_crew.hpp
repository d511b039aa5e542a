// SPDX-License-Identifier: Apache-2.0
// Threads that copy, in virtual time: each takes pieces of staged copies as a real one would, and a
// piece takes as long as its bytes do at a given rate. One real thread plays them all, so that one
// program takes the same time on every run.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "copy/host_work.hpp"
#include "sim/simulator.hpp"

namespace berth::bench {

class VirtualCrew {
 public:
  /// How often a thread that has nothing to do looks at the device.
  static constexpr std::uint64_t kLookNs = 1'000;

  VirtualCrew(sim::Simulator& simulator, HostWork& work, std::size_t threads, double bytes_per_ns)
      : simulator_(simulator), work_(work), lanes_(threads), bytes_per_ns_(bytes_per_ns) {}

  /// Until no copy is under way; the virtual time then.
  std::uint64_t run() {
    while (work_.copies_under_way() > 0) step();
    return simulator_.now_ns();
  }
  /// Lets some virtual time pass, until a thread is done with a piece or looks.
  void step() {
    std::uint64_t next = simulator_.now_ns() + kLookNs;
    for (const Lane& lane : lanes_) {
      if (lane.task && lane.end_ns < next) next = lane.end_ns;
    }
    if (next > simulator_.now_ns()) simulator_.spend(next - simulator_.now_ns());
    catch_up();
    work_.look();
  }
  /// What the threads have done until now, while the caller was doing something else.
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
    const double ns = std::ceil(static_cast<double>(lane.task->piece.bytes) / bytes_per_ns_);
    lane.end_ns = now_ns + static_cast<std::uint64_t>(ns);
  }
  void finish(Lane& lane) {
    lane.task->move();
    work_.finish(*lane.task);
    lane.task.reset();
  }

  sim::Simulator& simulator_;
  HostWork& work_;
  std::vector<Lane> lanes_;
  const double bytes_per_ns_;
};

}  // namespace berth::bench
