// SPDX-License-Identifier: Apache-2.0
// A Session on a new simulated device without allocations. For measurements that need a device
// without other uses: the memory that a workload takes, whether it fits, and its cost in virtual
// time.
#pragma once

#include <cstdint>
#include <utility>

#include "berth/bytes.hpp"

#include "sim/simulator.hpp"
#include "support/measured_simulator.hpp"
#include "support/session.hpp"

namespace berth::bench {

/// One at a time.
class SimulatedSession {
 public:
  /// `device_bytes`: a multiple of the simulated granule.
  explicit SimulatedSession(std::uint64_t device_bytes = 80_GiB,
                            sim::Progress progress = sim::Progress::eager)
      : SimulatedSession(config(device_bytes, progress)) {}
  explicit SimulatedSession(const sim::Config& config) : simulator_(config), session_("sim") {
    session_.enter_thread();
  }

  [[nodiscard]] sim::Simulator& simulator() { return simulator_; }
  [[nodiscard]] Session& session() { return session_; }

 private:
  static sim::Config config(std::uint64_t device_bytes, sim::Progress progress) {
    sim::Config config = measured_simulator(progress);
    config.memory = {device_bytes};
    return config;
  }

  sim::Simulator simulator_;
  Session session_;
};

}  // namespace berth::bench
