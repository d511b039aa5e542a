// SPDX-License-Identifier: Apache-2.0
// The load of the device while calls are timed: idle, or a running kernel.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace berth::campaign {

/// Durations of a call.
struct Series {
  std::vector<std::uint64_t> durations_ns;
  /// So many of them began while a kernel ran that had 10 ms left at least, and ended after it.
  std::size_t outlasted = 0;

  void clear() { *this = {}; }
  [[nodiscard]] Json to_json() const;
};

/// A stream with a running kernel, or an idle one. If kernels are not available, a host function
/// replaces the kernel, and a row reports that.
class Background {
 public:
  /// Blocking  Until the kernel runs.
  Background(const Machine& machine, const Kernels& kernels, bool is_busy);
  /// Blocking  Until the kernel has ended.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// The duration of `call`, while the kernel runs, if there is one.
  template <class Call>
  void time(Series& series, const Call& call) {
    const bool is_running = keep_busy();
    series.durations_ns.push_back(nanoseconds_of(call));
    if (is_running && !is_running_now()) ++series.outlasted;
  }
  /// For the place of a row.
  [[nodiscard]] std::string name() const;

 private:
  /// Ensures that a kernel runs for a while, and returns whether one does.
  bool keep_busy();
  [[nodiscard]] bool is_running_now() const;

  const Driver& driver_;
  const Kernels& kernels_;
  const std::chrono::nanoseconds length_;
  const bool is_busy_;
  CUstream stream_ = nullptr;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace berth::campaign
