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
  /// `alone`: no test takes the findings, so each goes to the file named by BERTH_SIM_FINDINGS, or
  /// to standard error.
  Findings(bool alone, const Config& config, EventLog& log)
      : alone_(alone), config_(config), log_(log), file_(alone) {}

  /// Ignores a finding of a kind that `checks` excludes. If no test takes the findings, each
  /// mistake is one finding, however often it happens, and the process aborts with
  /// on_finding=abort. After the first hundred, findings are only counted.
  void add(Finding finding);
  /// The findings since the last call.
  [[nodiscard]] std::vector<std::string> take();
  /// Whether no test takes the findings.
  [[nodiscard]] bool alone() const { return alone_; }
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  /// The file `module` requested an export table that only NVIDIA's drivers have.
  void note_private_table(const char* module) { file_.note_private_table(module); }
  /// `call` is the first of this process to return an error.
  void note_failed_call(const CallSite& call, CUresult result);
  /// The number of such calls so far.
  void note_failed_calls(std::uint64_t count, bool is_final) {
    file_.note_count("failed_calls", count, is_final);
  }
  /// The number of launches skipped so far; `is_final`: the process ends.
  void note_skipped_launches(std::uint64_t count, bool is_final);
  /// Only for the report of `berth sim`.
  void note_unrun_operations(std::uint64_t count, bool is_final);

 private:
  void tell(const Finding& finding, const std::string& mistake);
  /// Counts a finding that is not kept.
  void drop();

  bool alone_;
  const Config& config_;
  EventLog& log_;
  FindingsFile file_;
  std::vector<std::string> lines_;
  std::set<std::string> met_;  ///< the mistakes of the kept findings
  std::size_t dropped_ = 0;
};

}  // namespace berth::sim
