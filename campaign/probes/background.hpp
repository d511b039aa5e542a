// SPDX-License-Identifier: Apache-2.0
// What else happens on the device while calls are timed: nothing, or a kernel runs.
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

/// A stream on which a kernel runs, or none does. Where no kernels run at all, a host function
/// takes the place of one, and a row says so.
class Background {
 public:
  /// Blocking  Until the kernel runs.
  Background(const Machine& machine, const Kernels& kernels, bool is_busy);
  /// Blocking  Until the kernel has ended.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// How long `call` takes, while the kernel runs if one does.
  template <class Call>
  void time(Series& series, const Call& call) {
    const bool is_running = keep_busy();
    series.durations_ns.push_back(nanoseconds_of(call));
    if (is_running && !is_running_now()) ++series.outlasted;
  }
  /// For the place of a row.
  [[nodiscard]] std::string name() const;

 private:
  /// Makes sure that a kernel runs for a while, and returns whether one does.
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
