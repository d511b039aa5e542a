// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_opcode.hpp"

#include <array>

#include "base/format.hpp"

namespace berth {
namespace {

struct RefusedOpcode {
  std::uint8_t opcode;
  const char* name;
  bool is_class;  ///< names, calls or builds a class: executing it would execute the file's code
};

constexpr std::array kRefusedOpcodes = {
    RefusedOpcode{'c', "GLOBAL", true},        RefusedOpcode{0x93, "STACK_GLOBAL", true},
    RefusedOpcode{'R', "REDUCE", true},        RefusedOpcode{'b', "BUILD", true},
    RefusedOpcode{'i', "INST", true},          RefusedOpcode{'o', "OBJ", true},
    RefusedOpcode{0x81, "NEWOBJ", true},       RefusedOpcode{0x92, "NEWOBJ_EX", true},
    RefusedOpcode{0x82, "EXT1", true},         RefusedOpcode{0x83, "EXT2", true},
    RefusedOpcode{0x84, "EXT4", true},         RefusedOpcode{'P', "PERSID", true},
    RefusedOpcode{'Q', "BINPERSID", true},     RefusedOpcode{'S', "STRING", false},
    RefusedOpcode{'T', "BINSTRING", false},    RefusedOpcode{'U', "SHORT_BINSTRING", false},
    RefusedOpcode{0x8f, "EMPTY_SET", false},   RefusedOpcode{0x90, "ADDITEMS", false},
    RefusedOpcode{0x91, "FROZENSET", false},   RefusedOpcode{0x96, "BYTEARRAY8", false},
    RefusedOpcode{0x97, "NEXT_BUFFER", false}, RefusedOpcode{0x98, "READONLY_BUFFER", false},
    RefusedOpcode{'0', "POP", false},          RefusedOpcode{'1', "POP_MARK", false},
    RefusedOpcode{'2', "DUP", false},
};

}  // namespace

std::string describe_refused_opcode(std::uint8_t opcode) {
  for (const RefusedOpcode& refused : kRefusedOpcodes) {
    if (refused.opcode != opcode) continue;
    return format_text("opcode {} {}", refused.name,
                       refused.is_class ? "names or builds a class" : "is not of plain data");
  }
  return format_text("0x{:02x} is not a pickle opcode", opcode);
}

}  // namespace berth
