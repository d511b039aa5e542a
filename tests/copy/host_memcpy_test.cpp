// SPDX-License-Identifier: Apache-2.0
// Whichever instructions copy, the bytes arrive, and none beside them.
#include "copy/operand/host_memcpy.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "copy/copy_fixture.hpp"

namespace host_memcpy_test {

using namespace berth;
using namespace berth::test;

namespace {

void check_copy(std::size_t bytes, std::size_t source_offset, std::size_t target_offset) {
  constexpr unsigned char kGuard = 0xC3;
  const Bytes source = pattern(bytes + source_offset, bytes);
  Bytes target(bytes + target_offset + 64, kGuard);
  host_memcpy(target.data() + target_offset, source.data() + source_offset, bytes);
  CHECK(std::equal(source.begin() + std::ptrdiff_t(source_offset), source.end(),
                   target.begin() + std::ptrdiff_t(target_offset)));
  CHECK(std::count(target.begin(), target.begin() + std::ptrdiff_t(target_offset), kGuard) ==
        std::ptrdiff_t(target_offset));
  CHECK(std::count(target.end() - 64, target.end(), kGuard) == 64);
}

}  // namespace

TEST_CASE("each byte is copied and none beside them, at odd addresses and of odd sizes") {
  for (std::size_t round = 0; round < 8; ++round) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, 16_KiB - 1,
                                    16_KiB, 64_KiB + 1, 256_KiB + 129, 512_KiB}) {
      CAPTURE(bytes);
      check_copy(bytes, round % 7, 9 * round % 67);
    }
  }
}

}  // namespace host_memcpy_test
