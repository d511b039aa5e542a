// SPDX-License-Identifier: Apache-2.0
// Conversion between values of options and text. Text that is not accepted becomes nullopt; written
// text reads back as the same value.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/memory_limits.hpp"

namespace berth {

/// A whole decimal number without sign.
std::optional<std::uint64_t> read_count(std::string_view text, std::uint64_t smallest,
                                        std::uint64_t largest = UINT64_MAX);
/// A decimal number without sign, and finite.
std::optional<double> read_number(std::string_view text);
/// As parse_bytes(), from `smallest` on.
std::optional<std::size_t> read_bytes(std::string_view text, std::size_t smallest = 0);
/// Bytes, or "0%" to "100%".
std::optional<MemoryAmount> read_amount(std::string_view text);
/// "on" or "off".
std::optional<bool> read_switch(std::string_view text);
/// A whole number of ms, s, min or h, such as "10s", from 1 ms to a year.
std::optional<std::chrono::milliseconds> read_time(std::string_view text);

/// Exact, in the largest unit that divides it: "60GiB", "4097".
std::string bytes_text(std::size_t bytes);
/// Parts of a device to 15 digits, which is exact for parts that were read from up to 15 digits.
std::string amount_text(MemoryAmount amount);
std::string switch_text(bool on);
std::string time_text(std::chrono::milliseconds time);

[[noreturn]] void refuse_number(std::string_view option, long long number,
                                const std::vector<std::string_view>& accepted);

/// A value that is written as one of a few words.
template <class Value>
struct Word {
  Value value;
  std::string_view text;
};
template <class Value, std::size_t N>
std::optional<Value> read_word(std::string_view text, const Word<Value> (&words)[N]) {
  for (const Word<Value>& word : words) {
    if (word.text == text) return word.value;
  }
  return std::nullopt;
}
/// Errors  InvalidArgument: the option of this name has none of the values.
template <class Value, std::size_t N>
std::string word_text(std::string_view option, Value value, const Word<Value> (&words)[N]) {
  const auto* const found = std::ranges::find(words, value, &Word<Value>::value);
  if (found != std::end(words)) return std::string(found->text);
  std::vector<std::string_view> accepted;
  for (const Word<Value>& word : words) accepted.push_back(word.text);
  refuse_number(option, static_cast<long long>(value), accepted);
}

}  // namespace berth
