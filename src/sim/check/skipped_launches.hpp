// SPDX-License-Identifier: Apache-2.0
// The launches that kernels=skip has skipped in this process. Its end says how many they were: in
// the findings file, or on standard error where there is none. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <unistd.h>

#include "sim/check/findings.hpp"

namespace berth::sim {

class SkippedLaunches {
 public:
  /// `alone`: no test asks for findings. Otherwise nothing is told.
  SkippedLaunches(bool alone, Findings& findings) : alone_(alone), findings_(findings) {}

  void add();
  /// The process ends, or has ended in a way that runs nothing.
  void tell(bool is_final);

 private:
  bool alone_;
  Findings& findings_;
  std::uint64_t count_ = 0;
  pid_t process_ = 0;  ///< that has skipped them; a child begins anew
};

}  // namespace berth::sim
