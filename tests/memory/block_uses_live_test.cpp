// SPDX-License-Identifier: Apache-2.0
// Uses of blocks that are live.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_records.hpp"
#include "memory/order/block_uses.hpp"

namespace block_uses_live_test {

using namespace berth;

namespace {

using Use = BlockUses::Use;

struct UsesFixture {
  Block& make() {
    Block& block = records.make();
    block.uses = {0, 0};
    block.set_state(Block::State::allocated);
    return block;
  }
  void drop_all(Block& block) {
    uses.drop_if(block, [](const Use&) { return true; });
  }
  [[nodiscard]] std::vector<OwnerId> streams(const Block& block) const {
    std::vector<OwnerId> streams;
    uses.for_each(block, [&](const Use& use) { streams.push_back(use.stream); });
    return streams;
  }
  [[nodiscard]] std::vector<SharedEvent> events(const Block& block) const {
    std::vector<SharedEvent> events;
    uses.for_each(block, [&](const Use& use) { events.push_back(use.end.event); });
    return events;
  }
  void add(Block& block, OwnerId stream) { uses.add(block, {stream, {}}); }

  BlockRecords records;
  BlockUses uses;
};

using Streams = std::vector<OwnerId>;
using Events = std::vector<SharedEvent>;

/// An event that only its identity is asked of, recorded between two times.
RecordedEvent recorded(std::uint64_t after, std::uint64_t before) {
  const auto identity = std::make_shared<int>(0);
  return {{identity, reinterpret_cast<const EventLease*>(identity.get())}, after, before};
}

}  // namespace

TEST_CASE_FIXTURE(UsesFixture, "a block has no uses at first, and none after they were dropped") {
  Block& block = make();
  CHECK(streams(block).empty());
  CHECK_FALSE(uses.any(block));
  drop_all(block);
  CHECK_FALSE(uses.any(block));
  add(block, 4);
  add(block, 5);
  CHECK(uses.any(block));
  CHECK(streams(block) == Streams{5, 4});
  drop_all(block);
  CHECK_FALSE(uses.any(block));
  CHECK(streams(block).empty());
}

TEST_CASE_FIXTURE(UsesFixture, "streams are visited once each, the last recorded first") {
  Block& block = make();
  for (const OwnerId stream : {3, 1, 2}) add(block, stream);
  CHECK(streams(block) == Streams{2, 1, 3});
  for (const OwnerId stream : {1, 3, 2, 2}) add(block, stream);
  CHECK(streams(block) == Streams{2, 1, 3});
}

TEST_CASE_FIXTURE(UsesFixture, "dropping streams keeps the others in order") {
  for (const auto& [dropped, left] : {std::pair{Streams{1}, Streams{4, 3, 2}},
                                      {{4}, {3, 2, 1}},
                                      {{2, 3}, {4, 1}},
                                      {{4, 1}, {3, 2}},
                                      {{1, 2, 3, 4}, {}},
                                      {{}, {4, 3, 2, 1}}}) {
    Block& block = make();
    for (const OwnerId stream : {1, 2, 3, 4}) add(block, stream);
    uses.drop_if(block, [&gone = dropped](const Use& use) {
      return std::ranges::count(gone, use.stream) > 0;
    });
    CHECK(streams(block) == left);
    add(block, 9);
    CHECK(streams(block).front() == 9);
    CHECK(streams(block).size() == left.size() + 1);
  }
}

TEST_CASE_FIXTURE(UsesFixture,
                  "uses of one block do not affect other blocks or the block's marks") {
  Block& a = make();
  Block& b = make();
  a.uses.marks_left = 7;
  add(a, 1);
  add(b, 1);
  add(a, 2);
  add(b, 3);
  CHECK(streams(a).size() == 2);
  drop_all(a);
  CHECK(streams(a).empty());
  CHECK(streams(b) == Streams{3, 1});
  add(a, 5);
  add(a, 6);
  CHECK(streams(a) == Streams{6, 5});
  CHECK(streams(b) == Streams{3, 1});
  CHECK(a.uses.marks_left == 7);
}

TEST_CASE_FIXTURE(UsesFixture, "the later of two uses of a stream replaces the earlier") {
  Block& block = make();
  const RecordedEvent first = recorded(0, 1);
  const RecordedEvent second = recorded(1, 2);
  const RecordedEvent other = recorded(2, 3);
  uses.add(block, {1, first});
  uses.add(block, {2, other});
  CHECK(first.event.use_count() == 2);
  uses.add(block, {1, second});
  CHECK(streams(block) == Streams{1, 2});
  CHECK(events(block) == Events{second.event, other.event});
  CHECK(first.event.use_count() == 1);  // back in its pool
}

TEST_CASE_FIXTURE(UsesFixture, "uses that were recorded concurrently are all kept") {
  Block& block = make();
  const RecordedEvent first = recorded(4, 6);
  const RecordedEvent second = recorded(5, 7);
  uses.add(block, {1, first});
  uses.add(block, {1, second});
  CHECK(events(block) == Events{second.event, first.event});
  const RecordedEvent later = recorded(7, 8);
  uses.add(block, {1, later});
  CHECK(events(block) == Events{later.event});
}

TEST_CASE_FIXTURE(UsesFixture, "a use that lasts until the free replaces all uses of its stream") {
  Block& block = make();
  const RecordedEvent before = recorded(0, 1);
  const RecordedEvent after = recorded(1, 2);
  const RecordedEvent other = recorded(2, 3);
  uses.add(block, {1, before});
  uses.add(block, {2, other});
  CHECK_FALSE(uses.lasts(block, 1));
  add(block, 1);
  CHECK(uses.lasts(block, 1));
  CHECK_FALSE(uses.lasts(block, 2));
  CHECK_FALSE(uses.lasts(block, 3));
  uses.add(block, {1, after});
  CHECK(streams(block) == Streams{1, 2});
  CHECK(events(block) == Events{nullptr, other.event});
  CHECK(before.event.use_count() == 1);
  CHECK(after.event.use_count() == 1);
}

TEST_CASE_FIXTURE(UsesFixture, "the event of a use is released with the use") {
  Block& block = make();
  const RecordedEvent dropped = recorded(0, 1);
  const RecordedEvent kept = recorded(1, 2);
  uses.add(block, {1, dropped});
  uses.add(block, {2, kept});
  uses.drop_if(block, [](const Use& use) { return use.stream == 1; });
  CHECK(dropped.event.use_count() == 1);
  CHECK(kept.event.use_count() == 2);
  block.set_state(Block::State::pending);
  uses.defer(block);
  const RecordedEvent front = uses.front(2);
  CHECK(front.event == kept.event);
  CHECK(front.after == 1);
  CHECK(front.before == 2);
}

TEST_CASE_FIXTURE(UsesFixture, "random recording and dropping follows the model") {
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
        drop_all(block);
        expected.clear();
        break;
      case 1:
        uses.drop_if(block, [&](const Use& use) { return use.stream == stream; });
        std::erase(expected, stream);
        break;
      default:
        add(block, stream);
        if (std::ranges::count(expected, stream) == 0) expected.insert(expected.begin(), stream);
    }
    REQUIRE(streams(block) == expected);
    highest = std::max(highest, block.uses.list);
  }
  CHECK(highest <= 20 * 6);  // entries are used again
}

}  // namespace block_uses_live_test
