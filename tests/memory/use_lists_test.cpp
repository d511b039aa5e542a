// SPDX-License-Identifier: Apache-2.0
#include "memory/order/use_lists.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "memory/heap/block_records.hpp"

using namespace berth;

namespace {

struct UsesFixture {
  Block& make() {
    Block& block = records.make();
    block.uses = {0, 0};
    return block;
  }
  [[nodiscard]] std::vector<OwnerId> streams(const Block& block) const {
    std::vector<OwnerId> streams;
    uses.for_each(block, [&](OwnerId stream) { streams.push_back(stream); });
    return streams;
  }

  BlockRecords records;
  UseLists uses;
};

using Streams = std::vector<OwnerId>;

}  // namespace

TEST_CASE_FIXTURE(UsesFixture, "a block has no uses at first, and none after they were cleared") {
  Block& block = make();
  CHECK(streams(block).empty());
  uses.clear(block);
  uses.drop_if(block, [](OwnerId) { return true; });
  CHECK(block.uses.list == 0);
  uses.add(block, 4);
  uses.add(block, 5);
  CHECK(block.uses.list != 0);
  uses.clear(block);
  CHECK(block.uses.list == 0);
  CHECK(streams(block).empty());
}

TEST_CASE_FIXTURE(UsesFixture, "streams are visited once each, the last recorded first") {
  Block& block = make();
  for (const OwnerId stream : {3, 1, 2}) uses.add(block, stream);
  CHECK(streams(block) == Streams{2, 1, 3});
  for (const OwnerId stream : {1, 3, 2, 2}) uses.add(block, stream);
  CHECK(streams(block) == Streams{2, 1, 3});
}

TEST_CASE_FIXTURE(
    UsesFixture, "streams are dropped from either end and from between, the others stay in order") {
  for (const auto& [dropped, left] : {std::pair{Streams{1}, Streams{4, 3, 2}},
                                      {{4}, {3, 2, 1}},
                                      {{2, 3}, {4, 1}},
                                      {{4, 1}, {3, 2}},
                                      {{1, 2, 3, 4}, {}},
                                      {{}, {4, 3, 2, 1}}}) {
    Block& block = make();
    for (const OwnerId stream : {1, 2, 3, 4}) uses.add(block, stream);
    uses.drop_if(
        block, [&gone = dropped](OwnerId stream) { return std::ranges::count(gone, stream) > 0; });
    CHECK(streams(block) == left);
    uses.add(block, 9);
    CHECK(streams(block).front() == 9);
    CHECK(streams(block).size() == left.size() + 1);
  }
}

TEST_CASE_FIXTURE(UsesFixture,
                  "the uses of one block are no other block's, and leave its marks alone") {
  Block& a = make();
  Block& b = make();
  a.uses.marks_left = 7;
  uses.add(a, 1);
  uses.add(b, 1);
  uses.add(a, 2);
  uses.add(b, 3);
  uses.clear(a);
  CHECK(streams(a).empty());
  CHECK(streams(b) == Streams{3, 1});
  uses.add(a, 5);
  uses.add(a, 6);
  CHECK(streams(a) == Streams{6, 5});
  CHECK(streams(b) == Streams{3, 1});
  CHECK(a.uses.marks_left == 7);
}

TEST_CASE_FIXTURE(UsesFixture,
                  "random recording and dropping leaves each block what it must have") {
  std::mt19937 random(1);
  std::vector<Block*> blocks;
  std::vector<Streams> model(20);
  for (std::size_t index = 0; index < model.size(); ++index) blocks.push_back(&make());
  std::uint32_t highest = 0;
  for (int operation = 0; operation < 20'000; ++operation) {
    const std::size_t index = random() % blocks.size();
    Block& block = *blocks[index];
    Streams& expected = model[index];
    const auto stream = static_cast<OwnerId>(1 + random() % 6);
    switch (random() % 4) {
      case 0:
        uses.clear(block);
        expected.clear();
        break;
      case 1:
        uses.drop_if(block, [&](OwnerId each) { return each == stream; });
        std::erase(expected, stream);
        break;
      default:
        uses.add(block, stream);
        if (std::ranges::count(expected, stream) == 0) expected.insert(expected.begin(), stream);
    }
    REQUIRE(streams(block) == expected);
    highest = std::max(highest, block.uses.list);
  }
  CHECK(highest <= 20 * 6);  // entries are used again
}
