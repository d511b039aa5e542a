// SPDX-License-Identifier: Apache-2.0
// Entry of libFuzzer.
#include <cstddef>
#include <cstdint>

#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  berth::fuzz::run_input({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
