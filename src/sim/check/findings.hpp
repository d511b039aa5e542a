// SPDX-License-Identifier: Apache-2.0
// What the checks found: misuse for which CUDA has no error code, because hardware does not notice
// it. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sim/check/event_log.hpp"

namespace berth::sim {

class Findings {
 public:
  /// `aloud`: print each to standard error as well, since no test may ask for them.
  Findings(bool aloud, EventLog& log) : aloud_(aloud), log_(log) {}

  /// One line. After the first hundred only their number is kept: one mistake in a loop is enough.
  void add(std::string line);
  /// Those since the last call; they count as known from now on.
  [[nodiscard]] std::vector<std::string> take();
  [[nodiscard]] bool empty() const { return lines_.empty(); }

 private:
  bool aloud_;
  EventLog& log_;
  std::vector<std::string> lines_;
  std::size_t not_kept_ = 0;
};

}  // namespace berth::sim
