// SPDX-License-Identifier: Apache-2.0
#include "stats/text_format.hpp"

#include <algorithm>

namespace berth {
namespace {

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // a byte that begins a character
  }));
}

}  // namespace

std::string group_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

void append_line(std::string& text, std::string_view line) {
  text += line.substr(0, line.find_last_not_of(' ') + 1);
  text += '\n';
}

void append_wrapped(std::string& text, std::string_view lead, std::string_view words) {
  const std::string indent(columns_of(lead), ' ');
  std::string line(lead);
  bool is_empty = true;
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (!is_empty && columns_of(line) + 1 + columns_of(word) > kTextColumns) {
      append_line(text, line);
      line = indent;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  append_line(text, line);
}

}  // namespace berth
