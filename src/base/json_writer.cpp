// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <cstddef>

#include "base/format.hpp"

namespace berth {
namespace {

/// The bytes that may follow the first byte of a UTF-8 character. Source: The Unicode Standard,
/// table 3-7, "Well-Formed UTF-8 Byte Sequences".
struct Lead {
  unsigned char first;
  unsigned char last;
  std::size_t bytes;  ///< of the character
  unsigned char second_min;
  unsigned char second_max;
};
constexpr Lead kLeads[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f}};

struct Piece {
  std::size_t bytes;
  bool well_formed;
};

/// The character at the beginning of `text`, or the longest prefix of one.
Piece first_piece(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (const Lead& lead : kLeads) {
    if (byte(0) < lead.first || byte(0) > lead.last) continue;
    for (std::size_t at = 1; at < lead.bytes; ++at) {
      const unsigned char smallest = at == 1 ? lead.second_min : 0x80;
      const unsigned char largest = at == 1 ? lead.second_max : 0xbf;
      if (at == text.size() || byte(at) < smallest || byte(at) > largest) return {at, false};
    }
    return {lead.bytes, true};
  }
  return {1, false};
}

void append_json_character(std::string& json, char c) {
  constexpr std::string_view plain = "\"\\\b\f\n\r\t";
  constexpr std::string_view named = "\"\\bfnrt";
  if (const auto at = plain.find(c); at != plain.npos) {
    json += '\\';
    json += named[at];
  } else if (static_cast<unsigned char>(c) < 0x20) {
    json += format_text("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    json += c;
  }
}

}  // namespace

void append_json_string(std::string& json, std::string_view text) {
  json += '"';
  while (!text.empty()) {
    const Piece piece = first_piece(text);
    if (!piece.well_formed) {
      json += "\xef\xbf\xbd";  // U+FFFD
    } else if (piece.bytes == 1) {
      append_json_character(json, text[0]);
    } else {
      json += text.substr(0, piece.bytes);
    }
    text.remove_prefix(piece.bytes);
  }
  json += '"';
}

}  // namespace berth
