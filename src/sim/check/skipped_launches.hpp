// SPDX-License-Identifier: Apache-2.0
// The launches that kernels=skip has skipped in this process. Their number is reported at exit, in
// the findings file or on standard error. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <unistd.h>

#include "sim/check/findings.hpp"

namespace berth::sim {

class SkippedLaunches {
 public:
  /// `alone`: no test takes the findings. Otherwise nothing is reported.
  SkippedLaunches(bool alone, Findings& findings) : alone_(alone), findings_(findings) {}

  void add();
  /// The process ends, or has ended without exit handlers.
  void tell(bool is_final);

 private:
  bool alone_;
  Findings& findings_;
  std::uint64_t count_ = 0;
  pid_t process_ = 0;  ///< the process that skipped them; a forked child starts at 0
};

}  // namespace berth::sim
