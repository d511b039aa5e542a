// SPDX-License-Identifier: Apache-2.0
// Whichever instructions copy, the bytes arrive, and none beside them.
#include "copy/operand/host_memcpy.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "copy/copy_fixture.hpp"

namespace host_memcpy_test {

using namespace berth;
using namespace berth::test;

namespace {

using Copy = void (*)(void*, const void*, std::size_t);

void check_copy(Copy copy, std::size_t bytes, std::size_t source_offset,
                std::size_t target_offset) {
  constexpr unsigned char kGuard = 0xC3;
  const Bytes source = pattern(bytes + source_offset, bytes);
  Bytes target(bytes + target_offset + 64, kGuard);
  copy(target.data() + target_offset, source.data() + source_offset, bytes);
  CHECK(std::equal(source.begin() + std::ptrdiff_t(source_offset), source.end(),
                   target.begin() + std::ptrdiff_t(target_offset)));
  CHECK(std::count(target.begin(), target.begin() + std::ptrdiff_t(target_offset), kGuard) ==
        std::ptrdiff_t(target_offset));
  CHECK(std::count(target.end() - 64, target.end(), kGuard) == 64);
}

}  // namespace

TEST_CASE("every way to copy moves each byte, at odd addresses and of odd sizes") {
  for (const Copy copy : {&memcpy_to_staging, &memcpy_from_staging}) {
    // More pieces than it takes to try every way, and to choose.
    for (std::size_t round = 0; round < 40; ++round) {
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, std::size_t{63}, 64_KiB + 1, 256_KiB + 129, 512_KiB}) {
        CAPTURE(bytes);
        check_copy(copy, bytes, round % 7, round % 67);
      }
    }
  }
}

TEST_CASE("threads may copy while the fastest way is being found") {
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      const Bytes source = pattern(300'000, thread);
      Bytes target(300'000);
      for (int round = 0; round < 30; ++round) {
        memcpy_to_staging(target.data(), source.data(), source.size());
        memcpy_from_staging(target.data(), source.data(), source.size());
      }
      if (target != source) std::abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace host_memcpy_test
