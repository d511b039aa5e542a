// SPDX-License-Identifier: Apache-2.0
// Lists in text: "a, b,c". Views into the text, which must outlive them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The text without leading and trailing spaces.
inline std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The parts between separators: one more than there are separators, empty ones included.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// Joins `texts`, a range of values that convert to std::string_view.
template <class Texts>
std::string join_texts(const Texts& texts, std::string_view separator) {
  std::string joined;
  std::string_view before;
  for (const std::string_view text : texts) {
    joined += before;
    joined += text;
    before = separator;
  }
  return joined;
}

}  // namespace berth
