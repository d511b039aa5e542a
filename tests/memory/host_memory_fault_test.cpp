// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory during a growth: every call of operator new fails once.
#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "memory/source/arena_segments.hpp"
#include "support/scarce_memory.hpp"
#include "support/tapped_device.hpp"

namespace host_memory_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2_MiB;
constexpr OwnerId kRed = 1;

sim::Config device_of_64_mib() {
  sim::Config config;
  config.memory = {64_MiB};
  return config;
}

struct FaultFixture : TappedDevice {
  FaultFixture() : TappedDevice(device_of_64_mib()) {}
  ~FaultFixture() { segments.give_back_all(heap); }

  Block* grow_and_take(std::size_t bytes) {
    auto growth = segments.plan_growth(heap, bytes, kRed, SegmentSource::Stitching::yes);
    REQUIRE(growth.has_value());
    REQUIRE(segments.obtain(*growth));
    Block* const block = segments.finish_growth(heap, *growth, bytes, kRed);
    return block != nullptr ? block : heap.take(bytes, bytes, kRed);
  }
  /// A row of granules, of which every second is free.
  void make_holes() {
    std::vector<Block*> row;
    for (int index = 0; index < 12; ++index) row.push_back(grow_and_take(kGranule));
    for (std::size_t index = 1; index < row.size(); index += 2) heap.release(*row[index], kRed);
  }
  [[nodiscard]] std::size_t held() const {
    std::size_t count = 0;
    heap.for_each([&](const Block& block) { count += block.state() == Block::State::held; });
    return count;
  }
  /// Runs `call` with the first, the second and each further call of operator new failing, until it
  /// gets through, and says how often it failed.
  template <class Call, class Check>
  static std::size_t fail_each(const Call& call, const Check& check) {
    for (std::size_t nth = 1;; ++nth) {
      bool has_failed = false;
      {
        const ScarceMemory scarce(nth - 1, 1);
        try {
          call();
        } catch (const std::bad_alloc&) {
        }
        has_failed = scarce.calls() >= nth;
      }
      if (!has_failed) return nth - 1;
      check();
    }
  }

  BlockHeap heap;
  ArenaSegments segments{context, heap, kGranule, 64_MiB};
};

}  // namespace

TEST_CASE_FIXTURE(FaultFixture, "planning a growth without host memory leaves the heap unchanged") {
  make_holes();
  const std::size_t free_bytes = heap.free_bytes();
  const std::size_t unmapped_bytes = heap.unmapped().bytes();
  std::size_t failures = 0;
  for (const std::size_t bytes : {4 * kGranule, 5 * kGranule + 4_KiB, 10 * kGranule, 40_MiB}) {
    CAPTURE(bytes);
    std::optional<SegmentSource::Growth> growth;
    failures += fail_each(
        [&] { growth = segments.plan_growth(heap, bytes, kRed, SegmentSource::Stitching::yes); },
        [&] {
          heap.validate();
          CHECK(held() == 0);
          CHECK(heap.free_bytes() == free_bytes);
          CHECK(heap.unmapped().bytes() == unmapped_bytes);
        });
    REQUIRE(growth.has_value());
    segments.cancel_growth(heap, *growth);
    heap.validate();
    CHECK(heap.free_bytes() == free_bytes);
    CHECK(heap.unmapped().bytes() == unmapped_bytes);
  }
  CHECK(failures > 3);  // later plans have what earlier ones asked for
}

TEST_CASE_FIXTURE(FaultFixture, "obtained memory is free if the host has no memory to join it") {
  make_holes();
  for (std::size_t nth = 1; nth <= 4; ++nth) {
    auto growth =
        segments.plan_growth(heap, 7 * kGranule, kRed, SegmentSource::Stitching::yes).value();
    REQUIRE(segments.obtain(growth));
    const std::size_t free_bytes = heap.free_bytes();
    Block* block = nullptr;
    {
      const ScarceMemory scarce(nth - 1, 1);
      block = segments.finish_growth(heap, growth, 7 * kGranule, kRed);
    }
    heap.validate();
    CHECK(held() == 0);
    if (block == nullptr) {
      CHECK(heap.free_bytes() == free_bytes + 7 * kGranule);
    } else {
      heap.release(*block, kRed);
    }
  }
}

TEST_CASE_FIXTURE(FaultFixture, "planning a return without host memory holds nothing") {
  make_holes();
  heap.transfer(kRed, kUnowned, heap.serial());
  const std::size_t free_bytes = heap.free_bytes();
  std::vector<SegmentSource::Range> ranges;
  const std::size_t failures = fail_each([&] { ranges = segments.plan_return(heap, 4 * kGranule); },
                                         [&] {
                                           for (SegmentSource::Range& range : ranges)
                                             segments.cancel_return(heap, std::move(range));
                                           ranges.clear();
                                           heap.validate();
                                           CHECK(held() == 0);
                                           CHECK(heap.free_bytes() == free_bytes);
                                         });
  CHECK(failures > 0);
  CHECK(ranges.size() == 4);
  for (SegmentSource::Range& range : ranges) {
    REQUIRE_FALSE(segments.give_back(range));
    std::size_t calls = 0;
    {
      const ScarceMemory scarce(0);  // all that is needed was seen to before
      segments.finish_return(heap, std::move(range));
      calls = scarce.calls();
    }
    CHECK(calls == 0);
    heap.validate();
  }
}

}  // namespace host_memory_fault_test
