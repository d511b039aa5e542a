// SPDX-License-Identifier: Apache-2.0
// Entry of libFuzzer for the target that the build names.
#include <cstddef>
#include <cstdint>

#include "fuzz/readers/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const berth::fuzz::ReaderTarget& target =
      *berth::fuzz::find_reader_target(BERTH_FUZZ_TARGET);
  target.run({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
