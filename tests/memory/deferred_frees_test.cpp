// SPDX-License-Identifier: Apache-2.0
#include "memory/order/deferred_frees.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "memory/pending_blocks.hpp"
#include "support/death.hpp"

using namespace berth;
using namespace berth::test;

TEST_CASE("nothing is deferred at first") {
  DeferredFrees deferred;
  CHECK(deferred.mark_count() == 0);
  CHECK(deferred.streams().empty());
  CHECK_FALSE(deferred.has_marks(1));
  CHECK_FALSE(deferred.needs_seal(1));
  CHECK(deferred.front(1).event == nullptr);
  CHECK(deferred.pass(1, nullptr).empty());
  deferred.seal(1, 10, fake_event());
  CHECK(deferred.mark_count() == 0);
}

TEST_CASE("a block with one use is ready when the event of that use passes, not before") {
  DeferredFrees deferred;
  Block& block = pending_block({3});
  add(deferred, block);
  CHECK(block.uses.marks_left == 1);
  CHECK(deferred.mark_count() == 1);
  CHECK(deferred.has_marks(3));
  CHECK(deferred.needs_seal(3));
  CHECK(deferred.front(3).event == nullptr);

  const SharedEvent event = fake_event();
  CHECK(deferred.pass(3, event).empty());
  deferred.seal(3, deferred.now(), event);
  CHECK_FALSE(deferred.needs_seal(3));
  CHECK(deferred.front(3).event == event);
  CHECK(deferred.pass(3, fake_event()).empty());
  CHECK(deferred.pass(4, event).empty());
  CHECK(block.uses.marks_left == 1);

  CHECK(deferred.pass(3, event) == Blocks{&block});
  CHECK(block.uses.marks_left == 0);
  CHECK(deferred.mark_count() == 0);
  CHECK_FALSE(deferred.has_marks(3));
  CHECK(deferred.streams().empty());
}

TEST_CASE("a block with several uses is ready with the last of them, whichever that is") {
  std::vector<OwnerId> order = {1, 2, 3};
  do {
    DeferredFrees deferred;
    Block& block = pending_block({1, 2, 3});
    add(deferred, block);
    std::map<OwnerId, SharedEvent> events;
    for (const OwnerId stream : order) {
      events[stream] = fake_event();
      deferred.seal(stream, deferred.now(), events[stream]);
    }
    CHECK(deferred.pass(order[0], events[order[0]]).empty());
    CHECK(deferred.pass(order[1], events[order[1]]).empty());
    CHECK(block.uses.marks_left == 1);
    CHECK(deferred.pass(order[2], events[order[2]]) == Blocks{&block});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("an event covers the marks that there were when it was recorded, and no later one") {
  DeferredFrees deferred;
  Block& early = pending_block({1});
  Block& late = pending_block({1});
  add(deferred, early);
  const std::uint64_t mark = deferred.now();  // the event is recorded here
  add(deferred, late);
  const SharedEvent event = fake_event();
  deferred.seal(1, mark, event);
  CHECK(deferred.needs_seal(1));
  CHECK(deferred.pass(1, event) == Blocks{&early});
  CHECK(deferred.front(1).event == nullptr);
  CHECK(late.uses.marks_left == 1);
  const SharedEvent second = fake_event();
  deferred.seal(1, deferred.now(), second);
  CHECK(deferred.pass(1, second) == Blocks{&late});
}

TEST_CASE("a mark keeps the first event that it got") {
  DeferredFrees deferred;
  Block& first = pending_block({1});
  Block& second = pending_block({1});
  const SharedEvent early = fake_event();
  const SharedEvent late = fake_event();
  add(deferred, first);
  deferred.seal(1, deferred.now(), early);
  add(deferred, second);
  deferred.seal(1, deferred.now(), late);
  CHECK(deferred.pass(1, early) == Blocks{&first});
  CHECK(deferred.pass(1, late) == Blocks{&second});
}

TEST_CASE("one event serves all marks of its stream that had none, oldest first") {
  DeferredFrees deferred;
  std::vector<Block*> blocks;
  for (int index = 0; index < 5; ++index) add(deferred, *blocks.emplace_back(&pending_block({7})));
  const SharedEvent event = fake_event();
  deferred.seal(7, deferred.now(), event);
  CHECK(deferred.pass(7, event) == Blocks{blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]});
}

TEST_CASE("an event of one stream says nothing about another") {
  DeferredFrees deferred;
  Block& on_one = pending_block({1});
  Block& on_two = pending_block({2});
  add(deferred, on_one);
  add(deferred, on_two);
  const SharedEvent event = fake_event();
  deferred.seal(1, deferred.now(), event);
  CHECK(deferred.needs_seal(2));
  CHECK(deferred.front(2).event == nullptr);
  CHECK(deferred.pass(2, event).empty());
  CHECK(deferred.pass(1, event) == Blocks{&on_one});
  CHECK(deferred.has_marks(2));
}

TEST_CASE("marks without an event pass where the stream is known to be over") {
  DeferredFrees deferred;
  Block& sealed = pending_block({1});
  Block& unsealed = pending_block({1});
  add(deferred, sealed);
  const SharedEvent event = fake_event();
  deferred.seal(1, deferred.now(), event);
  add(deferred, unsealed);
  CHECK(deferred.pass(1, nullptr).empty());  // the older mark has an event that has not passed
  CHECK(deferred.pass(1, event) == Blocks{&sealed});
  CHECK(deferred.pass(1, nullptr) == Blocks{&unsealed});
}

TEST_CASE("a use with an event needs no seal, gets no other event, and passes with its own") {
  DeferredFrees deferred;
  const RecordedEvent end = record(deferred);
  Block& block = add_used(deferred, 1, end);
  CHECK(deferred.has_marks(1));
  CHECK_FALSE(deferred.needs_seal(1));
  const SharedEvent late = fake_event();
  deferred.seal(1, deferred.now(), late);
  CHECK(deferred.front(1).event == end.event);
  CHECK(deferred.front(1).after == end.after);
  CHECK(deferred.pass(1, late).empty());
  CHECK(deferred.pass(1, end.event) == Blocks{&block});
  CHECK_FALSE(deferred.has_marks(1));
}

TEST_CASE("a block waits for the end of its own use, in whatever order blocks are freed") {
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    DeferredFrees deferred;
    std::vector<RecordedEvent> ends;
    for (std::size_t use = 0; use < order.size(); ++use) ends.push_back(record(deferred));
    std::vector<Block*> blocks(order.size());
    for (const std::size_t use : order) blocks[use] = &add_used(deferred, 1, ends[use]);
    for (std::size_t use = 0; use < order.size(); ++use) {
      CHECK(deferred.front(1).event == ends[use].event);
      CHECK(deferred.pass(1, ends[use].event) == Blocks{blocks[use]});
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE(
    "a use that is over goes before marks that were made earlier, and sealed later or not yet") {
  DeferredFrees deferred;
  Block& lasting = pending_block({1});
  add(deferred, lasting);  // its stream cannot be marked yet
  const RecordedEvent end = record(deferred);
  const SharedEvent later = fake_event();
  Block* used = nullptr;
  SUBCASE("while there is no later event") {
    used = &add_used(deferred, 1, end);
    CHECK(deferred.needs_seal(1));
    CHECK(deferred.front(1).event == end.event);
    CHECK(deferred.pass(1, end.event) == Blocks{used});
    CHECK(deferred.front(1).event == nullptr);
    deferred.seal(1, deferred.now(), later);
  }
  SUBCASE("where the later event comes between") {
    used = &add_used(deferred, 1, end);
    deferred.seal(1, deferred.now(), later);
    CHECK(deferred.front(1).event == end.event);
    CHECK(deferred.pass(1, end.event) == Blocks{used});
  }
  SUBCASE("where the block is freed behind the later event") {
    deferred.seal(1, deferred.now(), later);
    used = &add_used(deferred, 1, end);
    CHECK(deferred.front(1).event == end.event);
    CHECK(deferred.pass(1, end.event) == Blocks{used});
  }
  CHECK(deferred.pass(1, later) == Blocks{&lasting});
}

TEST_CASE("a block with uses that are over and uses that last waits for all of them") {
  DeferredFrees deferred;
  const RecordedEvent end = record(deferred);
  const RecordedEvent same_time = record(deferred);
  Block& block = pending_block({1, 1, 2});
  deferred.add(block, {{1, end}, {1, same_time}, {2, {}}});
  CHECK(block.uses.marks_left == 3);
  CHECK(deferred.mark_count() == 3);
  CHECK_FALSE(deferred.needs_seal(1));
  CHECK(deferred.needs_seal(2));
  CHECK(deferred.pass(1, end.event).empty());
  const SharedEvent sealed = fake_event();
  deferred.seal(2, deferred.now(), sealed);
  CHECK(deferred.pass(2, sealed).empty());
  CHECK(deferred.pass(1, same_time.event) == Blocks{&block});
}

TEST_CASE("the stream whose use ended first comes first, whenever the blocks were freed") {
  DeferredFrees deferred;
  const RecordedEvent first = record(deferred);
  const RecordedEvent third = record(deferred);
  add_used(deferred, 7, third);
  Block& lasting = pending_block({5});
  add(deferred, lasting);
  add_used(deferred, 9, first);
  CHECK(deferred.streams() == std::vector<OwnerId>{9, 7, 5});
}

TEST_CASE("the stream with the oldest mark comes first, whatever the streams' numbers") {
  DeferredFrees deferred;
  std::vector<Block*> blocks;
  for (const OwnerId stream : {9, 2, 5, 2, 9})
    add(deferred, *blocks.emplace_back(&pending_block({stream})));
  CHECK(deferred.streams() == std::vector<OwnerId>{9, 2, 5});
  const SharedEvent event = fake_event();
  deferred.seal(9, 1, event);
  CHECK(deferred.pass(9, event) == Blocks{blocks[0]});
  CHECK(deferred.streams() == std::vector<OwnerId>{2, 5, 9});
}

TEST_CASE("a block that is not pending, has no use, or is queued already stops the process") {
  DeferredFrees deferred;
  Block& allocated = pending_block({1});
  allocated.set_state(Block::State::allocated);
  Block& unused = pending_block({});
  Block& queued = pending_block({1});
  CHECK(stops_the_process([&] { add(deferred, allocated); }));
  CHECK(stops_the_process([&] { add(deferred, unused); }));
  add(deferred, queued);
  CHECK(stops_the_process([&] { add(deferred, queued); }));
}
