// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

/// The text as one line that is safe for a terminal: control characters as \xNN, and at most about
/// 1,500 bytes, without the middle. The command quotes text from any source.
std::string printable(std::string_view text);

/// An argument in an error: the same in quotation marks, at most 60 bytes.
std::string quoted_argument(std::string_view text);

}  // namespace berth::tool
