// SPDX-License-Identifier: Apache-2.0
// Text from outside, made fit for an error message of one line, whatever bytes it holds.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// In quotation marks, cut short, and anything but printable ASCII as \xNN.
std::string quoted(std::string_view text);

/// As it is, except that control characters and bytes that are not UTF-8 become \xNN, and that the
/// middle of a text of more than 240 bytes becomes "...". For file names, which keep their own
/// alphabet.
std::string on_one_line(std::string_view text);

}  // namespace berth
