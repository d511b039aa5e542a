// SPDX-License-Identifier: Apache-2.0
#include "tool/printable.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace berth::tool {
namespace {

constexpr std::size_t kHeadBytes = 1000;
constexpr std::size_t kTailBytes = 500;
constexpr std::size_t kArgumentBytes = 60;

std::string escaped(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool wide_control = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (byte < 0x20 || byte == 0x7f || wide_control)
      line += fmt::format("\\x{:02x}", byte);
    else
      line += text[i];
  }
  return line;
}

}  // namespace

std::string printable(std::string_view text) {
  if (text.size() <= kHeadBytes + kTailBytes) return escaped(text);
  return escaped(text.substr(0, kHeadBytes)) + "..." +
         escaped(text.substr(text.size() - kTailBytes));
}

std::string quoted_argument(std::string_view text) {
  return fmt::format("'{}{}'", escaped(text.substr(0, kArgumentBytes)),
                     text.size() > kArgumentBytes ? "..." : "");
}

}  // namespace berth::tool
