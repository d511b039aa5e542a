// SPDX-License-Identifier: Apache-2.0
// The text encoding of pickle protocol 0, Python's "raw-unicode-escape": a byte is the character
// of that number, and \uXXXX or \UXXXXXXXX any other.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth {

/// Whether the text needs no decoding: ASCII without a backslash.
bool is_plain_ascii(std::string_view text);

/// The text as UTF-8; nullopt if an escape is incomplete or is not a character.
std::optional<std::string> decode_raw_unicode(std::string_view text);

}  // namespace berth
