// SPDX-License-Identifier: Apache-2.0
// Random frees on five streams. Events are recorded at one moment and seal marks at a later one, as
// when another thread is slow; they pass in any order that a stream allows. Some uses end before
// their block is freed.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/pending_blocks.hpp"

namespace block_uses_model_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("random frees are ready exactly when all their uses have completed") {
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
    BlockUses uses;
    std::vector<Block*> blocks;
    // The model: each stream's marks, with the time when they were made, the event that covers
    // them, and the time of that.
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
      uses.seal(recorded.stream, recorded.mark, recorded.event);
      std::vector<Mark>& queue = marks[recorded.stream];
      if (!queue.empty()) ++time;
      for (Mark& mark : queue) {
        if (mark.made > recorded.mark || mark.event != nullptr) continue;
        mark.event = recorded.event;
        mark.ended = time;
      }
      put_in_order(recorded.stream);
    };
    const auto pass_oldest = [&](OwnerId stream) {
      const SharedEvent event = uses.front(stream).event;
      if (event == nullptr) return;
      Blocks ready;
      std::vector<Mark>& queue = marks[stream];
      while (!queue.empty() && queue.front().event == event) {
        if (--waits[queue.front().block] == 0) ready.push_back(queue.front().block);
        queue.erase(queue.begin());
      }
      REQUIRE(complete(uses, stream, event) == ready);
      for (Block* block : ready) {
        REQUIRE(block->uses.marks_left == 0);
        waits.erase(block);
      }
    };
    const auto check = [&] {
      std::size_t count = 0;
      std::vector<std::pair<std::uint64_t, OwnerId>> oldest;
      for (const auto& [stream, queue] : marks) {
        REQUIRE(uses.has_marks(stream) == !queue.empty());
        const bool open = !queue.empty() && queue.back().event == nullptr;
        REQUIRE(uses.needs_seal(stream) == open);
        REQUIRE(uses.front(stream).event == (queue.empty() ? nullptr : queue.front().event));
        count += queue.size();
        if (queue.empty()) continue;
        const Mark& mark = queue.front();
        oldest.emplace_back(mark.event != nullptr ? mark.ended : mark.made, stream);
      }
      std::sort(oldest.begin(), oldest.end());
      std::vector<OwnerId> streams;
      for (const auto& [first, stream] : oldest) streams.push_back(stream);
      REQUIRE(uses.streams() == streams);
      REQUIRE(uses.mark_count() == count);
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
          Block& block = *blocks.emplace_back(&used_block(order));
          std::vector<BlockUses::Use> uses_of_block;
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
          free_block(uses, block, uses_of_block);
          waits[&block] = order.size();
          REQUIRE(uses.now() == time);
          break;
        }
        case 2:
          ended[stream].push_back(record(uses));
          ++time;
          break;
        case 3:
          slow.push_back({stream, uses.now(), fake_event()});
          break;
        case 4:
          if (!slow.empty()) {
            std::swap(slow[below(slow.size())], slow.back());
            seal(slow.back());
            slow.pop_back();
          }
          break;
        default:
          pass_oldest(stream);
      }
      check();
    }
    for (OwnerId stream = 1; stream <= kStreams; ++stream) {
      seal({stream, uses.now(), fake_event()});
      while (uses.has_marks(stream)) pass_oldest(stream);
    }
    check();
    CHECK(uses.mark_count() == 0);
    for (const Block* block : blocks) REQUIRE(block->uses.marks_left == 0);
  }
}

}  // namespace block_uses_model_test
