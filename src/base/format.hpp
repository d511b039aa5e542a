// SPDX-License-Identifier: Apache-2.0
// Text from a format string of fmt's. The templates of fmt that format are compiled once, in
// format.cpp: no other file of the library includes more than the check of format strings.
#pragma once

#include <string>

#if __has_include(<fmt/base.h>)
#include <fmt/base.h>
#else
#include <fmt/core.h>
#endif

namespace berth {

/// The implementation of format_text(), for values of all types.
[[gnu::cold]] [[nodiscard]] std::string format_values(fmt::string_view text,
                                                      fmt::format_args values);

/// As fmt::format(): the compiler checks `text` against the values.
template <class... Values>
[[nodiscard]] [[gnu::always_inline]] inline std::string format_text(
    fmt::format_string<Values...> text, Values&&... values) {
  return format_values(text, fmt::make_format_args(values...));
}

}  // namespace berth
