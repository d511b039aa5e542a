// SPDX-License-Identifier: Apache-2.0
#include "fuzz/launch_parameters.hpp"

#include <array>

namespace berth::fuzz {

DeviceCode::Drawn DeviceCode::draw(Turn& turn) const {
  static const std::array<std::string, 4> codes = {
      ".version 8.0\n.target sm_80\n.visible .entry add(.param .u64 x)\n{\n}\n"
      ".entry\tsub()\n{\n}\n.visible .global .align 4 .u32 ad = 7;\n"
      ".global .attribute(.managed) .f32 adder[4];\n",
      std::string("\x50\xed\x55\xba\0\0", 6), "no code", ".version 8.0 .entry"};
  const std::uint8_t choice = turn.bytes.byte();
  return {codes[choice % codes.size()], choice >= 0xf0};
}

KernelName::Drawn KernelName::draw(Turn& turn) const {
  static constexpr std::array<const char*, 6> names = {"add", "sub", "ad", "adder", "", nullptr};
  return {names[turn.bytes.byte() % names.size()]};
}

LaunchConfiguration::Drawn LaunchConfiguration::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  Drawn drawn{};
  drawn.attribute.id = choice % 2 == 0 ? CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
                                       : CU_LAUNCH_ATTRIBUTE_PRIORITY;
  drawn.attribute.value.programmaticStreamSerializationAllowed = choice % 4 == 0;
  drawn.config = {.gridDimX = choice % 8U,
                  .gridDimY = 1,
                  .gridDimZ = 1,
                  .blockDimX = 1 + choice % 3U * 512U,
                  .blockDimY = 1 + choice % 5U,
                  .blockDimZ = 1,
                  .sharedMemBytes = 0,
                  .hStream = Bits{draw_handle(turn, Kind::stream)},
                  .attrs = nullptr,
                  .numAttrs = choice % 2U};
  drawn.is_null = choice >= 0xf8;
  return drawn;
}

}  // namespace berth::fuzz
