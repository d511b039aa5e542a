// SPDX-License-Identifier: Apache-2.0
// What `berth sim` says at the end, as text and as JSON.
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
  /// A finding that is not ignored, with what the list of its seeds is good for.
  [[nodiscard]] std::vector<const SimFinding*> reported() const;
  /// The exit code of the first run that failed; else 1 if something is reported.
  [[nodiscard]] int exit_code() const;
  /// Lines for standard error.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;

  std::vector<SimRun> runs;
  SimFindings findings;
  std::vector<Suppression> suppressions;
  std::vector<const Suppression*> ignored_by;  ///< of each finding; null: it is reported
  std::string configuration;                   ///< BERTH_SIM, but for the seed
  /// The command line up to the seed, and after it.
  std::string again_before;
  std::string again_after;

 private:
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string finding_text(const SimFinding& finding) const;
  [[nodiscard]] std::string failures_text() const;
  [[nodiscard]] std::string seeds_text(std::vector<std::uint64_t> seeds) const;
  [[nodiscard]] std::string notes() const;
};

/// `words` as a shell takes them, with a blank between two.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace berth::tool
