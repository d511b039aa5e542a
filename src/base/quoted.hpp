// SPDX-License-Identifier: Apache-2.0
// Converts untrusted text to text for an error message of one line, whatever bytes it contains.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// In quotation marks, shortened, with all bytes other than printable ASCII as \xNN.
std::string quoted(std::string_view text);

/// Unchanged, except that control characters and bytes that are not UTF-8 become \xNN, and that the
/// middle of a text of more than 240 bytes becomes "...". For file names, which may use any
/// alphabet.
std::string on_one_line(std::string_view text);

}  // namespace berth
