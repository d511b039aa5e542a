// SPDX-License-Identifier: Apache-2.0
// The opcodes of Python's pickle format, protocols 0 to 5, that make plain data.
#pragma once

#include <cstdint>
#include <string>

namespace berth {

enum class PickleOpcode : std::uint8_t {
  // Structure
  proto = 0x80,
  frame = 0x95,
  mark = '(',
  stop = '.',
  // Scalars
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  int_line = 'I',
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  long_line = 'L',
  long1 = 0x8a,
  long4 = 0x8b,
  float_line = 'F',
  bin_float = 'G',
  // Texts and bytes
  unicode_line = 'V',
  short_bin_unicode = 0x8c,
  bin_unicode = 'X',
  bin_unicode8 = 0x8d,
  short_bin_bytes = 'C',
  bin_bytes = 'B',
  bin_bytes8 = 0x8e,
  // Containers
  empty_list = ']',
  list = 'l',
  append = 'a',
  appends = 'e',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  empty_dict = '}',
  dict = 'd',
  set_item = 's',
  set_items = 'u',
  // Memo
  put_line = 'p',
  bin_put = 'q',
  long_bin_put = 'r',
  memoize = 0x94,
  get_line = 'g',
  bin_get = 'h',
  long_bin_get = 'j',
};

/// The reason why an opcode outside the list above is refused: its name, and whether it names or
/// builds a class.
std::string describe_refused_opcode(std::uint8_t opcode);

}  // namespace berth
