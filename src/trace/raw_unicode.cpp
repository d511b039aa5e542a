// SPDX-License-Identifier: Apache-2.0
#include "trace/raw_unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace berth {
namespace {

constexpr std::uint32_t kCodePointMax = 0x10ffff;

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto append = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xc0 | code_point >> 6);
    append(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    append(0xe0 | code_point >> 12);
    append(0x80 | (code_point >> 6 & 0x3f));
    append(0x80 | (code_point & 0x3f));
  } else {
    append(0xf0 | code_point >> 18);
    append(0x80 | (code_point >> 12 & 0x3f));
    append(0x80 | (code_point >> 6 & 0x3f));
    append(0x80 | (code_point & 0x3f));
  }
}

/// The number of digits that follow `\u` or `\U`; 0 if `text` starts with neither.
std::size_t escape_digits(std::string_view text) {
  if (text.starts_with("\\u")) return 4;
  if (text.starts_with("\\U")) return 8;
  return 0;
}

}  // namespace

bool is_plain_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80 && c != '\\'; });
}

std::optional<std::string> decode_raw_unicode(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const std::size_t digits = escape_digits(text);
    if (digits == 0) {
      append_utf8(decoded, static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view number = text.substr(2, digits);
    std::uint32_t code_point = 0;
    const auto [stop, error] =
        std::from_chars(number.data(), number.data() + number.size(), code_point, 16);
    if (number.size() != digits || stop != number.data() + digits || error != std::errc() ||
        code_point > kCodePointMax)
      return std::nullopt;
    append_utf8(decoded, code_point);
    text.remove_prefix(2 + digits);
  }
  return decoded;
}

}  // namespace berth
