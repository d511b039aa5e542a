// SPDX-License-Identifier: Apache-2.0
// Findings that were reviewed and are accepted, each with a reason, from a file:
//
//   # a line of its own is a comment
//   race: *in warm_up # the first batch is thrown away
//
// A pattern is searched in the line of a finding together with the lines of its call sites; *
// matches any text, also over several lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tool/sim_findings.hpp"

namespace berth::tool {

struct Suppression {
  std::string pattern;
  std::string reason;
  std::string place;  ///< "FILE:LINE"
  std::size_t used = 0;
};

/// Empty without a `file`.
/// Errors  UsageError: the file cannot be read, or a line has no reason.
std::vector<Suppression> read_suppressions(const std::string& file);

/// The first that matches; null if none does.
Suppression* find_suppression(std::vector<Suppression>& suppressions, const SimFinding& finding);

/// Whether a part of `text` matches `pattern`.
bool has_match(std::string_view text, std::string_view pattern);

}  // namespace berth::tool
