// SPDX-License-Identifier: Apache-2.0
// The findings of the checks: misuse that hardware does not detect, so that CUDA has no error code
// for it. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sim/check/event_log.hpp"

namespace berth::sim {

class Findings {
 public:
  /// `aloud`: also print each finding to standard error, because no test may query them.
  Findings(bool aloud, EventLog& log) : aloud_(aloud), log_(log) {}

  /// Adds one line. After the first hundred, only the number of findings is kept, because one
  /// mistake may be in a loop.
  void add(std::string line);
  /// The findings since the last call.
  [[nodiscard]] std::vector<std::string> take();
  [[nodiscard]] bool empty() const { return lines_.empty(); }

 private:
  bool aloud_;
  EventLog& log_;
  std::vector<std::string> lines_;
  std::size_t dropped_ = 0;
};

}  // namespace berth::sim
