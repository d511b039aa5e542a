// SPDX-License-Identifier: Apache-2.0
#include "heap/pointer_map.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "support/death.hpp"

namespace pointer_map_test {

using namespace berth;
using namespace berth::test;

namespace {

BlockRecords& records() {
  static BlockRecords records;
  return records;
}

Block& block_at(std::uintptr_t address) {
  Block& block = records().make();
  block.address = address;
  block.bytes = 512;
  return block;
}

/// Addresses, 512 B apart or more, whose first probe in a map of 64 slots is one of `homes` slots
/// that lie around the end of the table: they collide with each other and wrap around.
std::vector<std::uintptr_t> colliding_addresses(std::size_t count, std::size_t homes) {
  std::vector<std::uintptr_t> addresses;
  for (std::uintptr_t address = 0x7f00'0000'0000; addresses.size() < count; address += 512) {
    // The map's hash: an address for which it changes merely collides less.
    const std::uint64_t home = (address * 0x9E3779B97F4A7C15u) >> 58;
    if ((home + homes / 2) % 64 < homes) addresses.push_back(address);
  }
  return addresses;
}

/// Inserts, erases and finds at random blocks at `addresses`, of which at most `live_max` are in
/// the map at once, and compares every answer with std::unordered_map's.
void compare_with_model(const std::vector<std::uintptr_t>& addresses, std::size_t live_max,
                        int operations, unsigned seed) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<Block*> blocks;
  for (const std::uintptr_t address : addresses) blocks.push_back(&block_at(address));
  PointerMap map(records());
  std::unordered_map<std::uintptr_t, Block*> model;
  for (int operation = 0; operation < operations; ++operation) {
    Block& block = *blocks[random() % blocks.size()];
    if (model.count(block.address) == 1) {
      map.erase(block);
      model.erase(block.address);
    } else if (model.size() < live_max) {
      map.insert(block);
      model.emplace(block.address, &block);
    }
    REQUIRE(map.count() == model.size());
    const bool agree = std::ranges::all_of(blocks, [&](const Block* each) {
      const auto found = model.find(each->address);
      Block* const expected = found == model.end() ? nullptr : found->second;
      return map.find(each->address) == expected && map.find(each->address + 1) == nullptr;
    });
    REQUIRE(agree);
  }
}

}  // namespace

TEST_CASE("a block is found by its start, and by no other address") {
  PointerMap map(records());
  Block& block = block_at(0x1000);
  CHECK(map.find(0x1000) == nullptr);
  map.insert(block);
  CHECK(map.find(0x1000) == &block);
  CHECK(map.count() == 1);
  for (const std::uintptr_t other :
       {0x0ull, 0x1ull, 0xfffull, 0x1001ull, 0x11ffull, 0x1200ull, 0x2000ull, ~0ull}) {
    CHECK(map.find(other) == nullptr);
  }
  map.erase(block);
  CHECK(map.find(0x1000) == nullptr);
  CHECK(map.count() == 0);
}

TEST_CASE("a block erased may be inserted again, and another one at its address") {
  PointerMap map(records());
  Block& first = block_at(0x2000);
  Block& second = block_at(0x2000);
  for (int round = 0; round < 100; ++round) {
    map.insert(first);
    CHECK(map.find(0x2000) == &first);
    map.erase(first);
    map.insert(second);
    CHECK(map.find(0x2000) == &second);
    map.erase(second);
  }
  CHECK(map.count() == 0);
}

TEST_CASE("the map grows to any number of blocks and keeps them all") {
  PointerMap map(records());
  std::vector<Block*> blocks;
  for (std::uintptr_t index = 0; index < 20'000; ++index) {
    blocks.push_back(&block_at(0x7f12'3400'0000 + index * 512));
    map.insert(*blocks.back());
  }
  CHECK(map.count() == blocks.size());
  for (Block* block : blocks) REQUIRE(map.find(block->address) == block);
  for (std::size_t index = 0; index < blocks.size(); index += 2) map.erase(*blocks[index]);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    REQUIRE(map.find(blocks[index]->address) == (index % 2 == 1 ? blocks[index] : nullptr));
  }
}

TEST_CASE("blocks that probe one slot are erased in any order without losing another") {
  const std::vector<std::uintptr_t> addresses = colliding_addresses(6, 1);
  std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
  do {
    PointerMap map(records());
    std::vector<Block*> blocks;
    for (const std::uintptr_t address : addresses)
      map.insert(*blocks.emplace_back(&block_at(address)));
    for (std::size_t erased = 0; erased < order.size(); ++erased) {
      map.erase(*blocks[order[erased]]);
      for (std::size_t index = 0; index < order.size(); ++index) {
        const auto end = order.begin() + std::ptrdiff_t(erased) + 1;
        const bool gone = std::find(order.begin(), end, index) != end;
        REQUIRE(map.find(addresses[index]) == (gone ? nullptr : blocks[index]));
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("random use of colliding addresses that wrap around the table follows the model") {
  for (const std::size_t homes : {1, 3, 8}) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
      compare_with_model(colliding_addresses(48, homes), 32, 4000, seed);
    }
  }
}

TEST_CASE("random use with growth on the way follows the model") {
  std::vector<std::uintptr_t> addresses = colliding_addresses(64, 2);
  for (std::uintptr_t index = 0; index < 140; ++index) addresses.push_back(0x1000 * (index + 1));
  for (unsigned seed = 1; seed <= 3; ++seed) compare_with_model(addresses, 200, 3000, seed);
}

TEST_CASE("inserting an address twice and erasing what is not there stop the process") {
  PointerMap map(records());
  Block& block = block_at(0x3000);
  Block& twin = block_at(0x3000);
  CHECK(stops_the_process([&] { map.erase(block); }));
  map.insert(block);
  CHECK(stops_the_process([&] { map.insert(twin); }));
  CHECK(stops_the_process([&] { map.erase(twin); }));
  CHECK_FALSE(stops_the_process([&] { map.erase(block); }));
}

}  // namespace pointer_map_test
