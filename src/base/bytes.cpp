// SPDX-License-Identifier: Apache-2.0
#include "berth/bytes.hpp"

#include <array>
#include <cctype>
#include <cmath>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {
namespace {

constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

/// The power of 1024 of the unit; -1 if the unit is not known.
int unit_exponent(std::string_view unit) {
  if (unit.empty()) return 0;
  constexpr std::string_view letters = "bkmgt";
  std::string lower;
  for (char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto exponent = letters.find(lower[0]);
  if (exponent == std::string_view::npos) return -1;
  const std::string_view rest = std::string_view(lower).substr(1);
  const bool known = exponent == 0 ? rest.empty() : rest.empty() || rest == "b" || rest == "ib";
  return known ? static_cast<int>(exponent) : -1;
}

[[noreturn]] void reject(std::string_view text) {
  throw InvalidArgument(format_text(
      "{} is not a byte count; accepted: a number below 2^64 with an optional unit, such as "
      "512, 64KiB, 1.5 GiB",
      quoted(text)));
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return format_text("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return format_text("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::uint64_t parse_bytes(std::string_view text) {
  std::size_t at = 0;
  bool digit_seen = false;
  long double number = 0;  // 64 bits of mantissa: every whole byte count is exact
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
    number = number * 10 + (text[at] - '0');
    digit_seen = true;
  }
  if (at < text.size() && text[at] == '.') {
    long double place = 0.1L;
    for (++at; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
      number += place * (text[at] - '0');
      place /= 10;
      digit_seen = true;
    }
  }
  if (!digit_seen) reject(text);
  while (at < text.size() && text[at] == ' ') ++at;
  const int exponent = unit_exponent(text.substr(at));
  if (exponent < 0) reject(text);
  const long double bytes = std::floor(std::ldexp(number, 10 * exponent));
  if (!(bytes < std::ldexp(1.0L, 64))) reject(text);
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace berth
