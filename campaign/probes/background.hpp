// SPDX-License-Identifier: Apache-2.0
// What else happens on the device while something is measured: nothing, or a kernel runs.
#pragma once

#include <cuda.h>

#include <chrono>
#include <string>

#include "probes/kernels.hpp"
#include "probes/machine.hpp"

namespace berth::campaign {

/// A stream on which a kernel runs, or none does.
class Background {
 public:
  Background(const Machine& machine, const Kernels& kernels, bool is_busy);
  /// Blocking  Until the kernel has ended.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Sees to it that a kernel runs for a while.
  void keep_busy();
  /// The name of a row of results.
  [[nodiscard]] std::string row(const std::string& what) const {
    return what + (is_busy_ ? ", a kernel runs" : ", idle");
  }

 private:
  const Driver& driver_;
  const Kernels& kernels_;
  const bool is_busy_;
  CUstream stream_ = nullptr;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace berth::campaign
