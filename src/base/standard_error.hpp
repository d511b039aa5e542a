// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string_view>

namespace berth {

/// Writes `text` to standard error. A failure, such as a full disk, is ignored: fmt::print() would
/// throw, even in a destructor or in a function that a C program called.
inline void write_to_stderr(std::string_view text) noexcept {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace berth
