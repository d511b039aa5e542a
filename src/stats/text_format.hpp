// SPDX-License-Identifier: Apache-2.0
// Common formatting of the statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

inline constexpr std::size_t kTextColumns = 80;

/// "12,345,678"
std::string group_digits(std::uint64_t number);

/// Appends `line` without blanks at its end, and a newline.
void append_line(std::string& text, std::string_view line);

/// Appends `lead` and then `words`, broken between words so that lines have at most kTextColumns;
/// lines after the first are indented as wide as `lead`. No word is left out: a word that is wider
/// has a line of its own. Columns are counted in characters of UTF-8.
void append_wrapped(std::string& text, std::string_view lead, std::string_view words);

}  // namespace berth
