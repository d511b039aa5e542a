// SPDX-License-Identifier: Apache-2.0
// One line on standard error that shows the progress of a long operation.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace berth::tool {

/// "label  [####------]  40 %" in at most `width` columns; the bar takes what the rest leaves.
/// `total` 0 counts as done.
std::string progress_line(const std::string& label, std::size_t done, std::size_t total,
                          std::size_t width);

/// Silent unless standard error is a terminal, and until `patience` is over, because short work
/// needs no bar. The destructor removes the line.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::size_t total,
              std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap enough to be called hundreds of times a second: draws at most ten times a second.
  void update(std::size_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::size_t total_;
  bool on_terminal_;
  bool drawn_ = false;
  Clock::time_point next_draw_;
};

}  // namespace berth::tool
