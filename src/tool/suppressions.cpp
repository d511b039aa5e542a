// SPDX-License-Identifier: Apache-2.0
#include "tool/suppressions.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"
#include "tool/trimmed.hpp"

namespace berth::tool {
namespace {

Suppression parse(std::string_view line, const std::string& place) {
  const auto mark = line.find(" #");
  Suppression parsed{std::string(trimmed(line.substr(0, mark))), {}, place};
  if (mark != std::string_view::npos) parsed.reason = trimmed(line.substr(mark + 2));
  if (parsed.reason.empty())
    throw UsageError(fmt::format("{}: {} has no reason; accepted: PATTERN # REASON", place,
                                 quoted_argument(parsed.pattern)));
  return parsed;
}

}  // namespace

std::vector<Suppression> read_suppressions(const std::string& file) {
  std::vector<Suppression> all;
  if (file.empty()) return all;
  // Opening a pipe waits for its writer, and a device such as /dev/zero never ends.
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (exists(status) && !is_regular_file(status))
    throw UsageError(fmt::format("--ignore: {} is a folder, a pipe or a device; accepted: a file",
                                 quoted_argument(file)));
  std::ifstream input(file);
  if (!input) throw UsageError(fmt::format("--ignore: {} cannot be read", quoted_argument(file)));
  std::string line;
  for (int number = 1; std::getline(input, line); ++number) {
    const std::string_view text = trimmed(line);
    if (!text.empty() && text.front() != '#')
      all.push_back(parse(text, fmt::format("{}:{}", file, number)));
  }
  return all;
}

// Each piece between stars matches at its first occurrence, because a later one leaves less text
// for the rest.
bool has_match(std::string_view text, std::string_view pattern) {
  for (;;) {
    const auto star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const auto at = text.find(piece);
    if (at == std::string_view::npos) return false;
    if (star == std::string_view::npos) return true;
    text.remove_prefix(at + piece.size());
    pattern.remove_prefix(star + 1);
  }
}

Suppression* find_suppression(std::vector<Suppression>& suppressions, const SimFinding& finding) {
  const std::string text = whole_text(finding);
  const auto found = std::find_if(
      suppressions.begin(), suppressions.end(),
      [&](const Suppression& suppression) { return has_match(text, suppression.pattern); });
  return found == suppressions.end() ? nullptr : &*found;
}

}  // namespace berth::tool
