// SPDX-License-Identifier: Apache-2.0
// The ways in which pickle writes numbers. Lines come without their end.
#pragma once

#include <optional>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// Opcode INT: decimal; 00 and 01 are truth values, as protocols 0 and 1 have no others.
std::optional<PlainValue> parse_int_line(std::string_view line);
/// Opcode LONG: decimal, with or without an L behind.
std::optional<PlainValue> parse_long_line(std::string_view line);
/// Opcode FLOAT.
std::optional<PlainValue> parse_float_line(std::string_view line);

/// Opcodes LONG1 and LONG4: two's complement, lowest byte first, as few bytes as it takes, none
/// for 0.
PlainValue parse_long_bytes(std::string_view bytes);
/// Opcode BINFLOAT: IEEE 754 in 8 bytes, highest first.
PlainValue parse_float_bytes(std::string_view bytes);

}  // namespace berth
