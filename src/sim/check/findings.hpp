// SPDX-License-Identifier: Apache-2.0
// The findings of the checks: misuse that hardware does not detect, so that CUDA has no error code
// for it. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/check/event_log.hpp"
#include "sim/check/finding.hpp"
#include "sim/check/findings_file.hpp"
#include "sim/config.hpp"

namespace berth::sim {

class Findings {
 public:
  /// `alone`: no test asks for findings, so each goes to the file that BERTH_SIM_FINDINGS names,
  /// or to standard error where there is none.
  Findings(bool alone, const Config& config, EventLog& log)
      : alone_(alone), config_(config), log_(log), file_(alone) {}

  /// Not those of a kind that `checks` leaves out. After the first hundred only their number is
  /// kept: one mistake in a loop is enough. Does not return with on_finding=abort, if no test asks
  /// for findings.
  void add(Finding finding);
  /// Those since the last call; they count as known from now on.
  [[nodiscard]] std::vector<std::string> take();
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  /// The file `module` asked for a table of functions that only NVIDIA's drivers have.
  void note_private_table(const char* module) { file_.note_private_table(module); }
  /// So many launches were skipped up to now; `is_final`: and the process ends.
  void note_skipped_launches(std::uint64_t count, bool is_final);

 private:
  void tell(const Finding& finding);
  /// Whether the same two calls have met before, in a program without a test.
  bool is_known(const Finding& finding);

  bool alone_;
  const Config& config_;
  EventLog& log_;
  FindingsFile file_;
  std::vector<std::string> lines_;
  std::set<std::string> met_;
  std::size_t dropped_ = 0;
};

}  // namespace berth::sim
