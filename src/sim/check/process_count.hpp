// SPDX-License-Identifier: Apache-2.0
// A number of events of this process, which is reported at exit, in the findings file or on
// standard error. Counts reported in between, at each power of two, remain if the process is
// killed. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <unistd.h>

#include "sim/check/findings.hpp"

namespace berth::sim {

class ProcessCount {
 public:
  using Report = void (Findings::*)(std::uint64_t count, bool is_final);

  /// `at_exit` is called when the process ends, to call tell(true). Nothing is counted if a test
  /// takes the findings.
  ProcessCount(Findings& findings, Report report, void (*at_exit)())
      : findings_(findings), report_(report), at_exit_(at_exit) {}

  /// Returns whether it is the first one of this process.
  bool add();
  /// `at_exit` will be called even if nothing is added, and may set the count. False if a test
  /// takes the findings.
  bool watch_exit();
  void set(std::uint64_t count) { count_ = count; }
  /// `is_final`: the process ends.
  void tell(bool is_final);

 private:
  Findings& findings_;
  const Report report_;
  void (*const at_exit_)();
  std::uint64_t count_ = 0;
  pid_t process_ = 0;  ///< that of the count; a forked child starts at 0
};

}  // namespace berth::sim
