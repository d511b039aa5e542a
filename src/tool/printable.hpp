// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

/// The text as one line that a terminal shows and does not obey: control characters as \xNN, and at
/// most some 1,500 bytes, the middle cut out. What the command quotes may come from anywhere.
std::string printable(std::string_view text);

/// An argument in an error: the same in quotation marks, at most 60 bytes.
std::string quoted_argument(std::string_view text);

}  // namespace berth::tool
