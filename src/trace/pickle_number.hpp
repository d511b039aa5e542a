// SPDX-License-Identifier: Apache-2.0
// The number formats of pickle. Lines are passed without their end.
#pragma once

#include <optional>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// Opcode INT: decimal; 00 and 01 are booleans, because protocols 0 and 1 have no others.
std::optional<PlainValue> parse_int_line(std::string_view line);
/// Opcode LONG: decimal, with or without a trailing L.
std::optional<PlainValue> parse_long_line(std::string_view line);
/// Opcode FLOAT.
std::optional<PlainValue> parse_float_line(std::string_view line);

/// Opcodes LONG1 and LONG4: two's complement, little-endian, with as few bytes as possible, none
/// for 0.
PlainValue parse_long_bytes(std::string_view bytes);
/// Opcode BINFLOAT: IEEE 754 in 8 bytes, big-endian.
PlainValue parse_float_bytes(std::string_view bytes);

}  // namespace berth
