// SPDX-License-Identifier: Apache-2.0
// The report of `berth sim` at the end, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tool/sim_findings.hpp"
#include "tool/suppressions.hpp"

namespace berth::tool {

struct SimRun {
  std::optional<std::uint64_t> seed;  ///< nullopt: as BERTH_SIM has it
  int exit_code = 0;
  int signal = 0;
};

struct SimReport {
  /// The findings that are not ignored.
  [[nodiscard]] std::vector<const SimFinding*> reported() const;
  /// The exit code of the first run that failed; otherwise 1 if a finding is reported, or findings
  /// may be lost; otherwise 2 if NVIDIA's runtime was called.
  [[nodiscard]] int exit_code() const;
  /// Lines for standard error.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;

  std::vector<SimRun> runs;
  SimFindings findings;
  std::vector<Suppression> suppressions;
  std::vector<const Suppression*> ignored_by;  ///< of each finding; null: it is reported
  std::string configuration;                   ///< BERTH_SIM without the seed
  std::vector<std::string> unchecked;          ///< kinds of findings that were not looked for
  /// The command line up to the seed, and after it.
  std::string again_before;
  std::string again_after;

 private:
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string finding_text(const SimFinding& finding) const;
  [[nodiscard]] std::string failures_text() const;
  [[nodiscard]] std::string seeds_text(std::vector<std::uint64_t> seeds) const;
  [[nodiscard]] std::string notes() const;
  [[nodiscard]] std::string missing_calls_text() const;
};

/// `words` quoted for a shell, separated by blanks.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace berth::tool
