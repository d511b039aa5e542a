// SPDX-License-Identifier: Apache-2.0
#include "memory/order/deferred_frees.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/heap/block_records.hpp"
#include "support/death.hpp"

using namespace berth;
using namespace berth::test;

namespace {

/// An event that only its identity is asked of: nothing is behind it.
SharedEvent fake_event() {
  const auto identity = std::make_shared<int>(0);
  return {identity, reinterpret_cast<const EventLease*>(identity.get())};
}

/// Pending blocks, and the streams that each waits for.
std::map<const Block*, std::vector<OwnerId>>& uses() {
  static std::map<const Block*, std::vector<OwnerId>> uses;
  return uses;
}

Block& pending_block(const std::vector<OwnerId>& streams) {
  static BlockRecords records;
  Block& block = records.make();
  block.bytes = 512;
  block.set_state(Block::State::pending);
  block.uses = {0, 0};
  uses()[&block] = streams;
  return block;
}

void add(DeferredFrees& deferred, Block& block) {
  std::vector<UseLists::Use> lasting;
  for (const OwnerId stream : uses().at(&block)) lasting.push_back({stream, {}});
  deferred.add(block, lasting);
}

/// An event that is recorded now, while nothing else happens.
RecordedEvent record(DeferredFrees& deferred) {
  const std::uint64_t began = deferred.now();
  return {fake_event(), began, deferred.tick()};
}

/// Frees a block that `stream` used up to `end`.
Block& add_used(DeferredFrees& deferred, OwnerId stream, const RecordedEvent& end) {
  Block& block = pending_block({stream});
  deferred.add(block, {{stream, end}});
  return block;
}

using Blocks = std::vector<Block*>;

}  // namespace

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

// Random frees on five streams. Events are recorded at one moment and seal marks at a later one, as
// when another thread is slow; they pass in any order that a stream allows. Some uses end before
// their block is freed.
TEST_CASE("random frees are ready exactly when all work that they were to wait for has passed") {
  constexpr OwnerId kStreams = 5;
  struct Recorded {
    OwnerId stream;
    std::uint64_t mark;
    SharedEvent event;
  };
  for (unsigned seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
    DeferredFrees deferred;
    std::vector<Block*> blocks;
    // The model: each stream's marks, with the time when they were made, the event that covers them,
    // and the time of that.
    struct Mark {
      std::uint64_t made;
      Block* block;
      SharedEvent event;
      std::uint64_t ended;
    };
    std::map<OwnerId, std::vector<Mark>> marks;
    std::map<Block*, std::size_t> waits;
    std::vector<Recorded> slow;
    std::map<OwnerId, std::vector<RecordedEvent>> ended;
    std::uint64_t time = 0;
    // Those with an event by its time, then those without.
    const auto put_in_order = [&](OwnerId stream) {
      std::ranges::stable_sort(marks[stream], {}, [](const Mark& mark) {
        return mark.event != nullptr ? mark.ended : RecordedEvent::kLater;
      });
    };

    const auto seal = [&](const Recorded& recorded) {
      deferred.seal(recorded.stream, recorded.mark, recorded.event);
      std::vector<Mark>& queue = marks[recorded.stream];
      if (!queue.empty()) ++time;
      for (Mark& mark : queue) {
        if (mark.made > recorded.mark || mark.event != nullptr) continue;
        mark.event = recorded.event;
        mark.ended = time;
      }
      put_in_order(recorded.stream);
    };
    const auto pass = [&](OwnerId stream) {
      const SharedEvent event = deferred.front(stream).event;
      if (event == nullptr) return;
      Blocks ready;
      std::vector<Mark>& queue = marks[stream];
      while (!queue.empty() && queue.front().event == event) {
        if (--waits[queue.front().block] == 0) ready.push_back(queue.front().block);
        queue.erase(queue.begin());
      }
      REQUIRE(deferred.pass(stream, event) == ready);
      for (Block* block : ready) {
        REQUIRE(block->uses.marks_left == 0);
        waits.erase(block);
      }
    };
    const auto check = [&] {
      std::size_t count = 0;
      std::vector<std::pair<std::uint64_t, OwnerId>> oldest;
      for (const auto& [stream, queue] : marks) {
        REQUIRE(deferred.has_marks(stream) == !queue.empty());
        const bool open = !queue.empty() && queue.back().event == nullptr;
        REQUIRE(deferred.needs_seal(stream) == open);
        REQUIRE(deferred.front(stream).event == (queue.empty() ? nullptr : queue.front().event));
        count += queue.size();
        if (queue.empty()) continue;
        const Mark& mark = queue.front();
        oldest.emplace_back(mark.event != nullptr ? mark.ended : mark.made, stream);
      }
      std::sort(oldest.begin(), oldest.end());
      std::vector<OwnerId> streams;
      for (const auto& [first, stream] : oldest) streams.push_back(stream);
      REQUIRE(deferred.streams() == streams);
      REQUIRE(deferred.mark_count() == count);
      const bool left_agree = std::ranges::all_of(
          waits, [](const auto& wait) { return wait.first->uses.marks_left == wait.second; });
      REQUIRE(left_agree);
    };

    for (int operation = 0; operation < 2000; ++operation) {
      const auto stream = static_cast<OwnerId>(1 + below(kStreams));
      switch (below(6)) {
        case 0:
        case 1: {
          std::set<OwnerId> users;
          for (std::size_t wanted = 1 + below(3); users.size() < wanted;)
            users.insert(static_cast<OwnerId>(1 + below(kStreams)));
          std::vector<OwnerId> order(users.begin(), users.end());
          std::shuffle(order.begin(), order.end(), random);
          Block& block = *blocks.emplace_back(&pending_block(order));
          std::vector<UseLists::Use> uses_of_block;
          for (const OwnerId use : order) {
            std::vector<RecordedEvent>& ends = ended[use];
            RecordedEvent end;
            if (!ends.empty() && below(3) == 0) {  // not always the latest
              std::swap(ends[below(ends.size())], ends.back());
              end = ends.back();
              ends.pop_back();
            }
            uses_of_block.push_back({use, end});
            marks[use].push_back({++time, &block, end.event, end.before});
            put_in_order(use);
          }
          deferred.add(block, uses_of_block);
          waits[&block] = order.size();
          REQUIRE(deferred.now() == time);
          break;
        }
        case 2:
          ended[stream].push_back(record(deferred));
          ++time;
          break;
        case 3:
          slow.push_back({stream, deferred.now(), fake_event()});
          break;
        case 4:
          if (!slow.empty()) {
            std::swap(slow[below(slow.size())], slow.back());
            seal(slow.back());
            slow.pop_back();
          }
          break;
        default:
          pass(stream);
      }
      check();
    }
    for (OwnerId stream = 1; stream <= kStreams; ++stream) {
      seal({stream, deferred.now(), fake_event()});
      while (deferred.has_marks(stream)) pass(stream);
    }
    check();
    CHECK(deferred.mark_count() == 0);
    for (const Block* block : blocks) REQUIRE(block->uses.marks_left == 0);
  }
}
