// SPDX-License-Identifier: Apache-2.0
// Records completed work and waits of the host, for Simulator::take_timeline(). Guarded by
// sim::mutex.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "berth/sim.hpp"

#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

class Recorder {
 public:
  void start() { on_ = true; }
  [[nodiscard]] bool on() const { return on_; }
  /// `operation` of `stream` ends now. Ignored if it is only a wait.
  void add(State& state, const Stream& stream, const Operation& operation, std::uint64_t begin_ns);
  /// `call` waited until now.
  void add_host_wait(State& state, const CallSite& call, std::uint64_t begin_ns);
  [[nodiscard]] std::vector<TimelineEntry> take() { return std::exchange(entries_, {}); }

 private:
  bool on_ = false;
  std::vector<TimelineEntry> entries_;
};

}  // namespace berth::sim
