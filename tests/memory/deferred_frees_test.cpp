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
  deferred.add(block, uses().at(&block));
}

using Blocks = std::vector<Block*>;

}  // namespace

TEST_CASE("nothing is deferred at first") {
  DeferredFrees deferred;
  CHECK(deferred.mark_count() == 0);
  CHECK(deferred.streams().empty());
  CHECK_FALSE(deferred.has_marks(1));
  CHECK_FALSE(deferred.needs_seal(1));
  CHECK(deferred.front(1) == nullptr);
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
  CHECK(deferred.front(3) == nullptr);

  const SharedEvent event = fake_event();
  CHECK(deferred.pass(3, event).empty());
  deferred.seal(3, deferred.mark(), event);
  CHECK_FALSE(deferred.needs_seal(3));
  CHECK(deferred.front(3) == event);
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
      deferred.seal(stream, deferred.mark(), events[stream]);
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
  const std::uint64_t mark = deferred.mark();  // the event is recorded here
  add(deferred, late);
  const SharedEvent event = fake_event();
  deferred.seal(1, mark, event);
  CHECK(deferred.needs_seal(1));
  CHECK(deferred.pass(1, event) == Blocks{&early});
  CHECK(deferred.front(1) == nullptr);
  CHECK(late.uses.marks_left == 1);
  const SharedEvent second = fake_event();
  deferred.seal(1, deferred.mark(), second);
  CHECK(deferred.pass(1, second) == Blocks{&late});
}

TEST_CASE("a mark keeps the first event that it got") {
  DeferredFrees deferred;
  Block& first = pending_block({1});
  Block& second = pending_block({1});
  const SharedEvent early = fake_event();
  const SharedEvent late = fake_event();
  add(deferred, first);
  deferred.seal(1, deferred.mark(), early);
  add(deferred, second);
  deferred.seal(1, deferred.mark(), late);
  CHECK(deferred.pass(1, early) == Blocks{&first});
  CHECK(deferred.pass(1, late) == Blocks{&second});
}

TEST_CASE("one event serves all marks of its stream that had none, oldest first") {
  DeferredFrees deferred;
  std::vector<Block*> blocks;
  for (int index = 0; index < 5; ++index) add(deferred, *blocks.emplace_back(&pending_block({7})));
  const SharedEvent event = fake_event();
  deferred.seal(7, deferred.mark(), event);
  CHECK(deferred.pass(7, event) == Blocks{blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]});
}

TEST_CASE("an event of one stream says nothing about another") {
  DeferredFrees deferred;
  Block& on_one = pending_block({1});
  Block& on_two = pending_block({2});
  add(deferred, on_one);
  add(deferred, on_two);
  const SharedEvent event = fake_event();
  deferred.seal(1, deferred.mark(), event);
  CHECK(deferred.needs_seal(2));
  CHECK(deferred.front(2) == nullptr);
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
  deferred.seal(1, deferred.mark(), event);
  add(deferred, unsealed);
  CHECK(deferred.pass(1, nullptr).empty());  // the older mark has an event that has not passed
  CHECK(deferred.pass(1, event) == Blocks{&sealed});
  CHECK(deferred.pass(1, nullptr) == Blocks{&unsealed});
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
// when another thread is slow; they pass in any order that a stream allows.
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
    // The model: each stream's marks in order, with their number and the event that covers them.
    struct Mark {
      std::uint64_t number;
      Block* block;
      SharedEvent event;
    };
    std::map<OwnerId, std::vector<Mark>> marks;
    std::map<Block*, std::size_t> waits;
    std::vector<Recorded> slow;
    std::uint64_t number = 0;

    const auto seal = [&](const Recorded& recorded) {
      deferred.seal(recorded.stream, recorded.mark, recorded.event);
      for (Mark& mark : marks[recorded.stream]) {
        if (mark.number <= recorded.mark && mark.event == nullptr) mark.event = recorded.event;
      }
    };
    const auto pass = [&](OwnerId stream) {
      const SharedEvent event = deferred.front(stream);
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
        REQUIRE(deferred.front(stream) == (queue.empty() ? nullptr : queue.front().event));
        count += queue.size();
        if (!queue.empty()) oldest.emplace_back(queue.front().number, stream);
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
      switch (below(5)) {
        case 0:
        case 1: {
          std::set<OwnerId> uses;
          for (std::size_t wanted = 1 + below(3); uses.size() < wanted;)
            uses.insert(static_cast<OwnerId>(1 + below(kStreams)));
          std::vector<OwnerId> order(uses.begin(), uses.end());
          std::shuffle(order.begin(), order.end(), random);
          Block& block = *blocks.emplace_back(&pending_block(order));
          add(deferred, block);
          for (const OwnerId use : order) marks[use].push_back({++number, &block, nullptr});
          waits[&block] = order.size();
          REQUIRE(deferred.mark() == number);
          break;
        }
        case 2:
          slow.push_back({stream, deferred.mark(), fake_event()});
          break;
        case 3:
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
      seal({stream, deferred.mark(), fake_event()});
      while (deferred.has_marks(stream)) pass(stream);
    }
    check();
    CHECK(deferred.mark_count() == 0);
    for (const Block* block : blocks) REQUIRE(block->uses.marks_left == 0);
  }
}
