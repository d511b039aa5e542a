// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace berth::tool {

/// `text` without blanks and carriage returns at both ends.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace berth::tool
