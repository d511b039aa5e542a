// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_number.hpp"

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace berth {

std::optional<PlainValue> parse_int_line(std::string_view line) {
  if (line == "00" || line == "01") return PlainValue::boolean(line == "01");
  return parse_long_line(line);
}

std::optional<PlainValue> parse_long_line(std::string_view line) {
  if (line.ends_with('L')) line.remove_suffix(1);
  std::int64_t number = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc() ? PlainValue::integer(number) : PlainValue::wide_integer();
}

std::optional<PlainValue> parse_float_line(std::string_view line) {
  double number = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  return PlainValue::real(number);
}

PlainValue parse_long_bytes(std::string_view bytes) {
  if (bytes.size() > sizeof(std::int64_t)) return PlainValue::wide_integer();
  const bool is_negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  std::uint64_t number = is_negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return PlainValue::integer(static_cast<std::int64_t>(number));
}

PlainValue parse_float_bytes(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return PlainValue::real(std::bit_cast<double>(number));
}

}  // namespace berth
