// SPDX-License-Identifier: Apache-2.0
#include "heap/block_starts.hpp"

#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "heap/block_records.hpp"
#include "support/death.hpp"

namespace block_starts_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = 0x7000'0020'0000;

Block& block_at(std::uintptr_t address) {
  static BlockRecords records;
  Block& block = records.make();
  block.address = address;
  return block;
}

}  // namespace

TEST_CASE("the last start up to an address is that of a model, in segments of any size") {
  for (const std::size_t bytes : {std::size_t{512}, 32_KiB, 33_KiB, 2_MiB, 200_MiB, 100_GiB}) {
    CAPTURE(bytes);
    std::mt19937_64 random(bytes);
    BlockStarts starts(kBase, bytes);
    std::set<std::uintptr_t> model;
    for (int step = 0; step < 3000; ++step) {
      // Most of them close together, the others anywhere.
      const std::size_t units = bytes / 512;
      const std::size_t unit =
          random() % (random() % 4 == 0 ? units : std::min<std::size_t>(units, 300));
      const std::uintptr_t address = kBase + unit * 512;
      if (model.erase(address) == 1) {
        starts.erase(block_at(address));
      } else {
        starts.insert(block_at(address));
        model.insert(address);
      }
      const std::uintptr_t asked =
          kBase + random() % (random() % 2 == 0 ? bytes : std::min(bytes, 256_KiB));
      const auto later = model.upper_bound(asked);
      const auto found = starts.last_up_to(asked);
      REQUIRE(found.has_value() == (later != model.begin()));
      if (found) REQUIRE(*found == *std::prev(later));
    }
    for (const std::uintptr_t address : model) starts.erase(block_at(address));
    CHECK_FALSE(starts.last_up_to(kBase + bytes - 1));
  }
}

TEST_CASE(
    "a start that is there already, or is not there, or lies between units stops the process") {
  BlockStarts starts(kBase, 1_MiB);
  Block& block = block_at(kBase + 1024);
  CHECK(stops_the_process([&] { starts.erase(block); }));
  CHECK(stops_the_process([&] { starts.insert(block_at(kBase + 1)); }));
  starts.insert(block);
  CHECK(stops_the_process([&] { starts.insert(block); }));
  CHECK_FALSE(stops_the_process([&] { starts.erase(block); }));
}

}  // namespace block_starts_test
