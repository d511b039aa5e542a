// SPDX-License-Identifier: Apache-2.0
#include "base/quoted.hpp"

#include <cstddef>
#include <iterator>

#include <fmt/format.h>

namespace berth {
namespace {

constexpr std::size_t kQuotedCharactersMax = 40;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

void append_escaped(std::string& text, char c) {
  fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, kQuotedCharactersMax)) {
    if (is_control(c) || static_cast<unsigned char>(c) > 0x7e)
      append_escaped(result, c);
    else
      result += c;
  }
  result += text.size() > kQuotedCharactersMax ? "...\"" : "\"";
  return result;
}

std::string on_one_line(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_control(c))
      append_escaped(result, c);
    else
      result += c;
  }
  return result;
}

}  // namespace berth
