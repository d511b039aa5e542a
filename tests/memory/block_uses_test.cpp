// SPDX-License-Identifier: Apache-2.0
#include "memory/order/block_uses.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "memory/pending_blocks.hpp"
#include "support/death.hpp"

namespace block_uses_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("initially no free is deferred") {
  BlockUses uses;
  CHECK(uses.mark_count() == 0);
  CHECK(uses.streams().empty());
  CHECK_FALSE(uses.has_marks(1));
  CHECK_FALSE(uses.needs_seal(1));
  CHECK(uses.front(1).event == nullptr);
  CHECK(complete(uses, 1, nullptr).empty());
  uses.seal(1, 10, fake_event());
  CHECK(uses.mark_count() == 0);
}

TEST_CASE("a block with one use is ready when the event of that use completes") {
  BlockUses uses;
  Block& block = used_block({3});
  free_block(uses, block);
  CHECK(block.uses.marks_left == 1);
  CHECK(uses.mark_count() == 1);
  CHECK(uses.has_marks(3));
  CHECK(uses.needs_seal(3));
  CHECK(uses.front(3).event == nullptr);

  const SharedEvent event = fake_event();
  CHECK(complete(uses, 3, event).empty());
  uses.seal(3, uses.now(), event);
  CHECK_FALSE(uses.needs_seal(3));
  CHECK(uses.front(3).event == event);
  CHECK(complete(uses, 3, fake_event()).empty());
  CHECK(complete(uses, 4, event).empty());
  CHECK(block.uses.marks_left == 1);

  CHECK(complete(uses, 3, event) == Blocks{&block});
  CHECK(block.uses.marks_left == 0);
  CHECK(uses.mark_count() == 0);
  CHECK_FALSE(uses.has_marks(3));
  CHECK(uses.streams().empty());
}

TEST_CASE("a block with several uses is ready when the last of them completes") {
  std::vector<OwnerId> order = {1, 2, 3};
  do {
    BlockUses uses;
    Block& block = used_block({1, 2, 3});
    free_block(uses, block);
    std::map<OwnerId, SharedEvent> events;
    for (const OwnerId stream : order) {
      events[stream] = fake_event();
      uses.seal(stream, uses.now(), events[stream]);
    }
    CHECK(complete(uses, order[0], events[order[0]]).empty());
    CHECK(complete(uses, order[1], events[order[1]]).empty());
    CHECK(block.uses.marks_left == 1);
    CHECK(complete(uses, order[2], events[order[2]]) == Blocks{&block});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("an event covers the marks made before its record, and none made later") {
  BlockUses uses;
  Block& early = used_block({1});
  Block& late = used_block({1});
  free_block(uses, early);
  const std::uint64_t mark = uses.now();  // the event is recorded here
  free_block(uses, late);
  const SharedEvent event = fake_event();
  uses.seal(1, mark, event);
  CHECK(uses.needs_seal(1));
  CHECK(complete(uses, 1, event) == Blocks{&early});
  CHECK(uses.front(1).event == nullptr);
  CHECK(late.uses.marks_left == 1);
  const SharedEvent second = fake_event();
  uses.seal(1, uses.now(), second);
  CHECK(complete(uses, 1, second) == Blocks{&late});
}

TEST_CASE("a mark keeps its first event") {
  BlockUses uses;
  Block& first = used_block({1});
  Block& second = used_block({1});
  const SharedEvent early = fake_event();
  const SharedEvent late = fake_event();
  free_block(uses, first);
  uses.seal(1, uses.now(), early);
  free_block(uses, second);
  uses.seal(1, uses.now(), late);
  CHECK(complete(uses, 1, early) == Blocks{&first});
  CHECK(complete(uses, 1, late) == Blocks{&second});
}

TEST_CASE("one event serves all marks of its stream that had none, oldest first") {
  BlockUses uses;
  std::vector<Block*> blocks;
  for (int index = 0; index < 5; ++index) free_block(uses, *blocks.emplace_back(&used_block({7})));
  const SharedEvent event = fake_event();
  uses.seal(7, uses.now(), event);
  CHECK(complete(uses, 7, event) == Blocks{blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]});
}

TEST_CASE("an event of one stream does not order another") {
  BlockUses uses;
  Block& on_one = used_block({1});
  Block& on_two = used_block({2});
  free_block(uses, on_one);
  free_block(uses, on_two);
  const SharedEvent event = fake_event();
  uses.seal(1, uses.now(), event);
  CHECK(uses.needs_seal(2));
  CHECK(uses.front(2).event == nullptr);
  CHECK(complete(uses, 2, event).empty());
  CHECK(complete(uses, 1, event) == Blocks{&on_one});
  CHECK(uses.has_marks(2));
}

TEST_CASE("marks without an event complete once the stream is known to be drained") {
  BlockUses uses;
  Block& sealed = used_block({1});
  Block& unsealed = used_block({1});
  free_block(uses, sealed);
  const SharedEvent event = fake_event();
  uses.seal(1, uses.now(), event);
  free_block(uses, unsealed);
  CHECK(complete(uses, 1, nullptr).empty());  // the older mark has an event that has not passed
  CHECK(complete(uses, 1, event) == Blocks{&sealed});
  CHECK(complete(uses, 1, nullptr) == Blocks{&unsealed});
}

TEST_CASE("a use with an event needs no seal and completes with its own event") {
  BlockUses uses;
  const RecordedEvent end = record(uses);
  Block& block = free_used_block(uses, 1, end);
  CHECK(uses.has_marks(1));
  CHECK_FALSE(uses.needs_seal(1));
  const SharedEvent late = fake_event();
  uses.seal(1, uses.now(), late);
  CHECK(uses.front(1).event == end.event);
  CHECK(uses.front(1).after == end.after);
  CHECK(complete(uses, 1, late).empty());
  CHECK(complete(uses, 1, end.event) == Blocks{&block});
  CHECK_FALSE(uses.has_marks(1));
}

TEST_CASE("a block waits for its own uses, in any order of frees") {
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    BlockUses uses;
    std::vector<RecordedEvent> ends;
    for (std::size_t use = 0; use < order.size(); ++use) ends.push_back(record(uses));
    std::vector<Block*> blocks(order.size());
    for (const std::size_t use : order) blocks[use] = &free_used_block(uses, 1, ends[use]);
    for (std::size_t use = 0; use < order.size(); ++use) {
      CHECK(uses.front(1).event == ends[use].event);
      CHECK(complete(uses, 1, ends[use].event) == Blocks{blocks[use]});
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a use with an earlier event precedes older marks that are sealed later or not yet") {
  BlockUses uses;
  Block& lasting = used_block({1});
  free_block(uses, lasting);  // its stream cannot be marked yet
  const RecordedEvent end = record(uses);
  const SharedEvent later = fake_event();
  Block* used = nullptr;
  SUBCASE("without a later event") {
    used = &free_used_block(uses, 1, end);
    CHECK(uses.needs_seal(1));
    CHECK(uses.front(1).event == end.event);
    CHECK(complete(uses, 1, end.event) == Blocks{used});
    CHECK(uses.front(1).event == nullptr);
    uses.seal(1, uses.now(), later);
  }
  SUBCASE("with a later event recorded after the free") {
    used = &free_used_block(uses, 1, end);
    uses.seal(1, uses.now(), later);
    CHECK(uses.front(1).event == end.event);
    CHECK(complete(uses, 1, end.event) == Blocks{used});
  }
  SUBCASE("with a later event recorded before the free") {
    uses.seal(1, uses.now(), later);
    used = &free_used_block(uses, 1, end);
    CHECK(uses.front(1).event == end.event);
    CHECK(complete(uses, 1, end.event) == Blocks{used});
  }
  CHECK(complete(uses, 1, later) == Blocks{&lasting});
}

TEST_CASE("a block with recorded and lasting uses waits for all of them") {
  BlockUses uses;
  const RecordedEvent end = record(uses);
  RecordedEvent same_time = record(uses);
  same_time.after = end.after;
  Block& block = used_block({1, 1, 2});
  free_block(uses, block, {{1, end}, {1, same_time}, {2, {}}});
  CHECK(block.uses.marks_left == 3);
  CHECK(uses.mark_count() == 3);
  CHECK_FALSE(uses.needs_seal(1));
  CHECK(uses.needs_seal(2));
  CHECK(complete(uses, 1, end.event).empty());
  const SharedEvent sealed = fake_event();
  uses.seal(2, uses.now(), sealed);
  CHECK(complete(uses, 2, sealed).empty());
  CHECK(complete(uses, 1, same_time.event) == Blocks{&block});
}

TEST_CASE("the stream whose use ended first comes first, whenever the blocks were freed") {
  BlockUses uses;
  const RecordedEvent first = record(uses);
  const RecordedEvent third = record(uses);
  free_used_block(uses, 7, third);
  Block& lasting = used_block({5});
  free_block(uses, lasting);
  free_used_block(uses, 9, first);
  CHECK(uses.streams() == std::vector<OwnerId>{9, 7, 5});
}

TEST_CASE("marks of one owner complete up to an event that its stream waits for") {
  BlockUses uses;
  constexpr OwnerId kOwner = 1;
  constexpr OwnerId kUser = 2;
  const std::uint64_t began = uses.now();  // two threads record at the same time
  const RecordedEvent beside{fake_event(), began, uses.tick()};
  const RecordedEvent awaited_end{fake_event(), began, uses.tick()};
  const RecordedEvent later = record(uses);
  Block& others = free_used_block(uses, kUser, beside);
  Block& unordered = free_used_block(uses, kUser, beside);
  unordered.owner = kOwner;
  Block& own = free_used_block(uses, kUser, awaited_end);
  own.owner = kOwner;
  Block& after = free_used_block(uses, kUser, later);
  after.owner = kOwner;

  const auto awaited = uses.awaited_by(kOwner, unordered.bytes + own.bytes);
  REQUIRE(awaited);
  CHECK(awaited->stream == kUser);
  CHECK(awaited->end.event == awaited_end.event);
  Blocks ready;
  CHECK(uses.complete_for(kOwner, *awaited, [&](Block& block) { ready.push_back(&block); }) == 1);
  CHECK(ready == Blocks{&own});
  // The rest is there still, and comes free as it would have.
  CHECK(complete(uses, kUser, beside.event) == Blocks{&others, &unordered});
  CHECK(complete(uses, kUser, later.event) == Blocks{&after});
  CHECK_FALSE(uses.awaited_by(kOwner, 1));
}

TEST_CASE("the stream with the oldest mark comes first, whatever its id") {
  BlockUses uses;
  std::vector<Block*> blocks;
  for (const OwnerId stream : {9, 2, 5, 2, 9})
    free_block(uses, *blocks.emplace_back(&used_block({stream})));
  CHECK(uses.streams() == std::vector<OwnerId>{9, 2, 5});
  const SharedEvent event = fake_event();
  uses.seal(9, 1, event);
  CHECK(complete(uses, 9, event) == Blocks{blocks[0]});
  CHECK(uses.streams() == std::vector<OwnerId>{2, 5, 9});
}

TEST_CASE("a block that is not pending, has no use, or is queued already stops the process") {
  BlockUses uses;
  Block& allocated = used_block({});
  uses.add(allocated, {1, {}});
  Block& unused = used_block({});
  Block& queued = used_block({1});
  CHECK(stops_the_process([&] { uses.defer(allocated); }));
  CHECK(stops_the_process([&] { free_block(uses, unused); }));
  free_block(uses, queued);
  CHECK(stops_the_process([&] { uses.defer(queued); }));
  CHECK(stops_the_process([&] { uses.add(queued, {2, {}}); }));
}

TEST_CASE("a stream with uses of live blocks alone has no marks") {
  BlockUses uses;
  Block& block = used_block({});
  uses.add(block, {1, {}});
  CHECK_FALSE(uses.has_deferred());
  CHECK_FALSE(uses.has_marks(1));
  CHECK_FALSE(uses.needs_seal(1));
  CHECK(uses.front(1).event == nullptr);
  CHECK(uses.streams().empty());
  uses.seal(1, uses.now(), fake_event());
  CHECK(complete(uses, 1, nullptr).empty());
  CHECK(uses.lasts(block, 1));
  block.set_state(Block::State::pending);
  uses.defer(block);
  CHECK_FALSE(uses.any(block));
  CHECK(uses.has_deferred());
  CHECK(uses.needs_seal(1));
  CHECK(complete(uses, 1, nullptr) == Blocks{&block});
  CHECK_FALSE(uses.has_deferred());
}

TEST_CASE("an event is released with its mark") {
  BlockUses uses;
  const RecordedEvent own = record(uses);
  const SharedEvent sealed = fake_event();
  free_used_block(uses, 1, own);
  free_block(uses, used_block({1}));
  uses.seal(1, uses.now(), sealed);
  CHECK(own.event.use_count() == 2);
  CHECK(sealed.use_count() == 2);
  CHECK(complete(uses, 1, own.event).size() == 1);
  CHECK(own.event.use_count() == 1);
  CHECK(complete(uses, 1, sealed).size() == 1);
  CHECK(sealed.use_count() == 1);
}

}  // namespace block_uses_test
