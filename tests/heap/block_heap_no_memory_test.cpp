// SPDX-License-Identifier: Apache-2.0
// The block heap on a host that is out of memory: a failed call changes nothing and succeeds when
// repeated, and calls that return memory do not fail.
#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_heap.hpp"
#include "support/scarce_memory.hpp"

namespace block_heap_no_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = 0x1000'0000;
constexpr std::size_t kGranule = 0x4000;
constexpr std::size_t kSegment = 256 * kGranule;
constexpr std::uintptr_t kWindow = 0x8000'0000;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;  ///< has nothing
constexpr OwnerId kGreen = 3;

/// A heap with some blocks of each kind, and about as many as its records and its pointer map have
/// room for.
struct World {
  explicit World(std::size_t fill, bool has_granules = true) {
    if (has_granules) heap.set_granule_bytes(kGranule);
    heap.release_held(heap.add_segment(kBase, kSegment), Block::State::free, kUnowned);
    for (std::size_t index = 0; index < fill; ++index)
      live.push_back(heap.take(0x400, 0x400, kRed));
    large = heap.take(5 * kGranule, 5 * kGranule, kRed);
    heap.take(0x200, 0x200, kRed);
    Block* const freed = heap.take(4 * kGranule, 4 * kGranule, kRed);
    heap.take(0x200, 0x200, kRed);
    green = heap.take(0x600, 0x600, kGreen);
    heap.release(*freed, kRed);
    heap.transfer(kGreen, kUnowned,
                  heap.serial());  // nothing, so that Green has but what is in use
    Block* const whole = heap.free_blocks(kUnowned).best_fit(8 * kGranule);
    const std::uintptr_t top = whole->end();
    unmapped = &heap.hold(*whole, top - 8 * kGranule, 4 * kGranule);
    heap.release_held(*unmapped, Block::State::unmapped, kUnowned);
    held = &heap.hold(*whole, top - 12 * kGranule, 2 * kGranule);
    for (const std::size_t at : {16, 20})
      parts.push_back(&heap.hold(*whole, top - at * kGranule, kGranule));
    heap.validate();
  }

  using Row = std::tuple<std::uintptr_t, std::size_t, int, OwnerId, std::uint64_t>;
  /// All blocks.
  [[nodiscard]] std::vector<Row> rows() const {
    std::vector<Row> rows;
    heap.for_each([&](const Block& block) {
      rows.emplace_back(block.address, block.bytes, static_cast<int>(block.state()), block.owner,
                        block.freed_at);
    });
    std::ranges::sort(rows);
    return rows;
  }
  [[nodiscard]] Block& hole() const { return *heap.free_blocks(kUnowned).best_fit(8 * kGranule); }

  BlockHeap heap;
  std::vector<Block*> live;
  Block* large = nullptr;
  Block* green = nullptr;  ///< Green's only one
  Block* held = nullptr;
  Block* unmapped = nullptr;
  std::vector<Block*> parts;
};

constexpr std::size_t kFills[] = {0, 3, 44, 45, 46, 239, 240, 241, 242, 243, 244, 245, 246, 247};

/// `change(world)` with the first, the second ... call of operator new failing. Returns how many
/// calls it made at most.
template <class Change>
std::size_t fail_each_call(const Change& change, bool has_granules = true) {
  std::size_t calls_most = 0;
  for (const std::size_t fill : kFills) {
    CAPTURE(fill);
    for (std::size_t number = 1;; ++number) {
      CAPTURE(number);
      World world(fill, has_granules);
      const auto rows = world.rows();
      const std::uint64_t serial = world.heap.serial();
      bool failed = false;
      std::size_t calls = 0;
      {
        const ScarceMemory scarce(number - 1);
        try {
          change(world);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        calls = scarce.calls();
      }
      calls_most = std::max(calls_most, calls);
      world.heap.validate();
      if (!failed) {
        REQUIRE(calls < number);
        break;
      }
      REQUIRE(world.rows() == rows);
      REQUIRE(world.heap.serial() == serial);
      change(world);
      world.heap.validate();
      REQUIRE(world.rows() != rows);
    }
  }
  return calls_most;
}

/// Likewise, of what is not to ask for memory at all.
template <class Prepare, class Change>
void check_asks_for_none(const Prepare& prepare, const Change& change, bool has_granules = true) {
  for (const std::size_t fill : kFills) {
    CAPTURE(fill);
    World world(fill, has_granules);
    prepare(world);
    {
      const ScarceMemory scarce(0);
      change(world);
      REQUIRE(scarce.calls() == 0);
    }
    world.heap.validate();
  }
}

template <class Change>
void check_asks_for_none(const Change& change) {
  check_asks_for_none([](World&) {}, change);
}

}  // namespace

TEST_CASE("a request for which the host has no memory changes nothing") {
  const auto take = [](World& world) { world.heap.take(0x600, 0x600, kBlue); };
  CHECK(fail_each_call(take) > 1);
  const auto take_known = [](World& world) { world.heap.take(0x600, 0x600, kRed); };
  CHECK(fail_each_call(take_known) > 0);
  const auto take_middle = [](World& world) {
    Block& hole = world.hole();
    world.heap.take({&hole, hole.address + 0x800, 0}, 0x400, 0x400, kBlue);
  };
  CHECK(fail_each_call(take_middle) > 0);
}

TEST_CASE("hold, split, add and join change nothing if the host has no memory") {
  CHECK(fail_each_call([](World& world) {
          Block& hole = world.hole();
          world.heap.hold(hole, hole.address + 0x800, 0x400);
        }) > 0);
  CHECK(fail_each_call([](World& world) {
          world.heap.hold(*world.unmapped, world.unmapped->address + kGranule, kGranule);
        }) > 0);
  CHECK(fail_each_call([](World& world) { world.heap.split(*world.held, kGranule); }) > 0);
  constexpr bool kHasGranules = false;
  CHECK(fail_each_call([](World& world) { world.heap.add_segment(kBase + kSegment, 0x4000); },
                       kHasGranules) > 0);
  CHECK(fail_each_call([](World& world) {
          world.heap.stitch(world.parts, kWindow, 2 * kGranule, kBlue);
        }) > 2);
}

TEST_CASE("a transfer changes nothing if the host has no memory") {
  const auto serial = [](World& world) { return world.heap.serial(); };
  CHECK(fail_each_call([&](World& world) { world.heap.transfer(kRed, kBlue, serial(world)); }) > 0);
  CHECK(fail_each_call(
            [&](World& world) { world.heap.transfer_fit(kRed, kBlue, serial(world), 0x400); }) > 0);
  CHECK(fail_each_call([&](World& world) {
          world.heap.transfer_granules(kRed, kBlue, serial(world), 2);
        }) > 0);
  CHECK(fail_each_call([&](World& world) {
          world.heap.transfer_granules(kUnowned, kBlue, serial(world), 200);
        }) > 0);
  CHECK(fail_each_call([&](World& world) {
          world.heap.transfer_whole(kUnowned, kBlue, serial(world), 3 * kGranule);
        }) > 0);
  CHECK(fail_each_call([](World& world) {
          world.heap.release_held(*world.held, Block::State::free, kBlue);
        }) > 0);
  CHECK(fail_each_call([](World& world) { world.heap.release(*world.large, kBlue); }) > 0);
}

TEST_CASE("freeing allocates no host memory, also for an owner whose memory was all transferred") {
  check_asks_for_none([](World& world) { world.heap.release(*world.large, kRed); });
  check_asks_for_none([](World& world) { world.heap.release(*world.large, kUnowned); });
  check_asks_for_none([](World& world) { world.heap.release(*world.green, kGreen); });
  check_asks_for_none([](World& world) {
    for (Block* block : world.live) world.heap.release(*block, kRed);
  });
  check_asks_for_none([](World& world) {
    world.heap.set_pending(*world.green);
    world.heap.release(*world.green, kGreen);
  });
  check_asks_for_none(
      [](World& world) { world.heap.stitch(world.parts, kWindow, kGranule, kGreen); },
      [](World& world) {
        world.heap.release(*world.heap.find(reinterpret_cast<void*>(kWindow)), kGreen);
      });
}

TEST_CASE("releasing held memory, mapped or not, allocates no host memory") {
  check_asks_for_none([](World& world) {
    world.heap.release_held(*world.held, Block::State::unmapped, kUnowned);
    for (Block* part : world.parts)
      world.heap.release_held(*part, Block::State::unmapped, kUnowned);
  });
  check_asks_for_none(
      [](World& world) { world.heap.reserve_owner(kBlue); },
      [](World& world) { world.heap.release_held(*world.held, Block::State::free, kBlue); });
  check_asks_for_none(
      [](World& world) {
        Block& added = world.heap.add_segment(kBase + kSegment, 0x4000);
        world.heap.release_held(added, Block::State::free, kUnowned);
        world.held = &world.heap.hold(added, added.address, added.bytes);
      },
      [](World& world) {
        auto segment = world.heap.detach_segment(*world.held);
        world.heap.attach_segment(std::move(segment));
        world.heap.remove_segment(world.heap.detach_segment(*world.held));
      },
      false);
}

TEST_CASE("holding reserved blocks allocates no host memory") {
  check_asks_for_none([](World& world) { world.heap.reserve_blocks(40); },
                      [](World& world) {
                        for (int count = 0; count < 40; ++count) {
                          Block& hole = world.hole();
                          world.heap.release_held(
                              world.heap.hold(hole, hole.address + kGranule, 0x200),
                              Block::State::unmapped, kUnowned);
                        }
                      });
}

TEST_CASE("finding the block that covers an address allocates no host memory") {
  for (const std::size_t number : {1, 0}) {
    World world(240);
    for (Block* block : world.live) {
      const ScarceMemory scarce(number - 1);
      void* const inside = reinterpret_cast<void*>(block->end() - 1);
      CHECK(world.heap.find_covering(inside) == block);
      CHECK(world.heap.find_in_use(inside) == block);
    }
    world.heap.validate();
  }
}

}  // namespace block_heap_no_memory_test
