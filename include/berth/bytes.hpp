// SPDX-License-Identifier: Apache-2.0
// Byte counts: literals (`2_MiB`), formatting and parsing. All units are binary, 1 KiB = 1024 B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

inline namespace literals {
constexpr std::size_t operator""_KiB(unsigned long long count) {
  return count << 10;
}
constexpr std::size_t operator""_MiB(unsigned long long count) {
  return count << 20;
}
constexpr std::size_t operator""_GiB(unsigned long long count) {
  return count << 30;
}
}  // namespace literals

/// Formats a byte count for people, with at most four digits and a unit, rounded to nearest: "512
/// B", "1.50 GiB".
BERTH_API std::string format_bytes(std::uint64_t bytes);

/// Parses a byte count: a decimal number, optionally with a fraction ("1.5GiB"), and an optional
/// unit B, KiB, MiB, GiB or TiB (any case; K, M, G, T and KB... mean the same binary unit), with or
/// without a space between. No unit means bytes.
/// Errors  InvalidArgument that quotes the text: empty, signed, not a number, unknown unit, 2^64 or
///         more.
BERTH_API std::uint64_t parse_bytes(std::string_view text);

}  // namespace berth
