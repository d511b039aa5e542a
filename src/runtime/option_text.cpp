// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/text_list.hpp"

namespace berth {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t size;
};

constexpr std::array<Unit, 5> kByteUnits = {
    {{"", 1}, {"KiB", 1_KiB}, {"MiB", 1_MiB}, {"GiB", 1_GiB}, {"TiB", 1024_GiB}}};
constexpr std::array<Unit, 4> kTimeUnits = {
    {{"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 60 * 60 * 1000}}};
/// Small enough that a point in time does not overflow.
constexpr std::uint64_t kLongestMs = std::uint64_t{365} * 24 * 60 * 60 * 1000;

template <class T>
std::optional<T> read_all(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `value` in the largest of `units` that divides it.
template <std::size_t N>
std::string in_largest_unit(std::uint64_t value, const std::array<Unit, N>& units) {
  const Unit* largest = &units.front();
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.size == 0) largest = &unit;
  }
  return format_text("{}{}", value / largest->size, largest->name);
}

}  // namespace

std::optional<std::uint64_t> read_count(std::string_view text, std::uint64_t smallest,
                                        std::uint64_t largest) {
  const auto value = read_all<std::uint64_t>(text);
  return value && *value >= smallest && *value <= largest ? value : std::nullopt;
}

std::optional<double> read_number(std::string_view text) {
  const auto value = text.starts_with('-') ? std::nullopt : read_all<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::size_t> read_bytes(std::string_view text, std::size_t smallest) {
  try {
    const std::uint64_t bytes = parse_bytes(text);
    if (bytes >= smallest) return bytes;
  } catch (const InvalidArgument&) {
    // The caller's message has the accepted values of the option, which are more specific than "a
    // byte count".
  }
  return std::nullopt;
}

std::optional<MemoryAmount> read_amount(std::string_view text) {
  if (!text.ends_with('%')) return read_bytes(text);
  const auto percent = read_number(text.substr(0, text.size() - 1));
  if (!percent || *percent > 100) return std::nullopt;
  return MemoryAmount::part_of_device(*percent / 100);
}

std::optional<bool> read_switch(std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> read_time(std::string_view text) {
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  for (const Unit& unit : kTimeUnits) {
    if (text.substr(digits) != unit.name) continue;
    const auto count = read_count(text.substr(0, digits), 1, kLongestMs / unit.size);
    if (!count) return std::nullopt;
    return std::chrono::milliseconds(*count * unit.size);
  }
  return std::nullopt;
}

std::string bytes_text(std::size_t bytes) {
  return in_largest_unit(bytes, kByteUnits);
}

std::string amount_text(MemoryAmount amount) {
  if (const auto part = amount.part()) return format_text("{:.15g}%", *part * 100);
  return bytes_text(amount.bytes(0));
}

std::string switch_text(bool on) {
  return on ? "on" : "off";
}

void refuse_number(std::string_view option, long long number,
                   const std::vector<std::string_view>& accepted) {
  throw InvalidArgument(
      format_text("{} is {}; accepted: {}", option, number, join_texts(accepted, ", ")));
}

std::string time_text(std::chrono::milliseconds time) {
  return in_largest_unit(static_cast<std::uint64_t>(time.count()), kTimeUnits);
}

}  // namespace berth
