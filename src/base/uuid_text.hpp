// SPDX-License-Identifier: Apache-2.0
// A UUID as RFC 4122 writes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

/// `prefix` and 8-4-4-4-12 hexadecimal digits in lower case, of the 16 bytes at `bytes`.
template <class Byte>
std::string uuid_text(std::string_view prefix, const Byte* bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(prefix.size() + 36, '-');
  char* next = std::copy(prefix.begin(), prefix.end(), text.data());
  for (std::size_t index = 0; index < 16; ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) ++next;  // skips a dash
    const auto byte = static_cast<unsigned char>(bytes[index]);
    *next++ = digits[byte >> 4];
    *next++ = digits[byte & 15];
  }
  return text;
}

}  // namespace berth
