// SPDX-License-Identifier: Apache-2.0
#include "base/quoted.hpp"

#include <cstddef>
#include <cstdint>

#include "base/format.hpp"

namespace berth {
namespace {

constexpr std::size_t kQuotedBytesMax = 40;
// The name of a file is at the end of its path.
constexpr std::size_t kLineHeadBytes = 160;
constexpr std::size_t kLineTailBytes = 80;

std::uint8_t byte_at(std::string_view text, std::size_t index) {
  return static_cast<std::uint8_t>(text[index]);
}

void append_escaped(std::string& text, char c) {
  text += format_text("\\x{:02x}", static_cast<unsigned char>(c));
}

bool is_printable_ascii(std::uint8_t byte) {
  return byte >= 0x20 && byte < 0x7f;
}

/// The number of bytes of the UTF-8 character at the beginning of `text`, if it is neither ASCII
/// nor a control character; otherwise 0.
std::size_t wide_character(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  std::uint32_t character = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte_at(text, i) & 0x3fu);
  }
  constexpr std::uint32_t smallest[] = {0xa0, 0x800, 0x10000};  // below 0xa0: control characters
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  return character < smallest[bytes - 2] || character > 0x10ffff || surrogate ? 0 : bytes;
}

void append_line(std::string& line, std::string_view text) {
  while (!text.empty()) {
    std::size_t bytes = is_printable_ascii(byte_at(text, 0)) ? 1 : wide_character(text);
    if (bytes != 0) {
      line += text.substr(0, bytes);
    } else {
      bytes = 1;
      append_escaped(line, text[0]);
    }
    text.remove_prefix(bytes);
  }
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, kQuotedBytesMax)) {
    if (is_printable_ascii(static_cast<std::uint8_t>(c)))
      result += c;
    else
      append_escaped(result, c);
  }
  result += text.size() > kQuotedBytesMax ? "...\"" : "\"";
  return result;
}

std::string on_one_line(std::string_view text) {
  std::string line;
  if (text.size() <= kLineHeadBytes + kLineTailBytes) {
    append_line(line, text);
    return line;
  }
  append_line(line, text.substr(0, kLineHeadBytes));
  line += "...";
  append_line(line, text.substr(text.size() - kLineTailBytes));
  return line;
}

}  // namespace berth
