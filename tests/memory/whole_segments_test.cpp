// SPDX-License-Identifier: Apache-2.0
#include "memory/source/whole_segments.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/tapped_device.hpp"

namespace whole_segments_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr OwnerId kRed = 1;

sim::Config devices_of_64_mib(int devices = 1) {
  sim::Config config;
  config.devices = devices;
  config.memory = {64_MiB};
  return config;
}

/// Segments of addresses that nothing is behind, and what was freed of them.
class NumberedSegments final : public WholeSegments {
 public:
  using WholeSegments::WholeSegments;
  std::vector<std::uintptr_t> freed;
  bool reuses_freed = false;  ///< the next segment gets the addresses of the one freed last
  bool refuses = false;       ///< to free

 private:
  bool create(Growth& growth) override {
    if (reuses_freed) {
      growth.address = freed.back();
      return true;
    }
    growth.address = next_;
    next_ += 0x1'0000'0000;
    return true;
  }
  DriverRefusal destroy(Segment& segment) noexcept override {
    if (refuses) return {DriverCall::mem_free, CUDA_ERROR_UNKNOWN};
    freed.push_back(segment.address);
    return {};
  }
  std::uintptr_t next_ = 0x1'0000'0000;
};

struct NumberedFixture {
  std::size_t planned_bytes(std::size_t bytes) {
    return segments.plan_growth(heap, bytes, kRed, SegmentSource::Stitching::yes)->bytes;
  }
  /// One segment of `bytes` exactly, free and of `owner`.
  Block* add(std::size_t bytes, OwnerId owner) {
    SegmentSource::Growth growth{.bytes = bytes};
    REQUIRE(segments.obtain(growth));
    segments.finish_growth(heap, growth, 1, owner);
    heap.validate();
    return heap.segments().at(growth.address);
  }
  std::vector<std::uintptr_t> addresses(const std::vector<SegmentSource::Range>& ranges) {
    std::vector<std::uintptr_t> addresses;
    for (const SegmentSource::Range& range : ranges) addresses.push_back(range.held->address);
    return addresses;
  }

  BlockHeap heap;
  NumberedSegments segments{20_MiB, 2_MiB, 64_MiB};
};

}  // namespace

TEST_CASE_FIXTURE(NumberedFixture,
                  "requests below half of a segment share one, others get one of their own") {
  CHECK(planned_bytes(512) == 20_MiB);
  CHECK(planned_bytes(10_MiB - 512) == 20_MiB);
  CHECK(planned_bytes(10_MiB) == 10_MiB);
  CHECK(planned_bytes(10_MiB + 512) == 12_MiB);
  CHECK(planned_bytes(20_MiB) == 20_MiB);
  CHECK(planned_bytes(63_MiB) == 64_MiB);
  CHECK(planned_bytes(64_MiB) == 64_MiB);
  CHECK_FALSE(
      segments.plan_growth(heap, 64_MiB + 512, kRed, SegmentSource::Stitching::yes).has_value());
  CHECK(segments.capacity_bytes() == 64_MiB);
}

TEST_CASE_FIXTURE(NumberedFixture, "a new segment is one free block of the requesting owner") {
  Block* segment = add(20_MiB, kRed);
  CHECK(segment->state() == Block::State::free);
  CHECK(segment->owner == kRed);
  CHECK(segment->bytes == 20_MiB);
  CHECK(segment->is_whole_segment());
}

TEST_CASE_FIXTURE(NumberedFixture,
                  "unowned segments that are entirely free are returned, largest first") {
  Block* const small = add(4_MiB, kUnowned);
  Block* const large = add(12_MiB, kUnowned);
  Block* const middle = add(8_MiB, kUnowned);
  const std::uintptr_t split = add(2_MiB, kUnowned)->address;
  REQUIRE(heap.take(1_MiB, 1_MiB, kRed)->address == split);
  Block* const owned = add(16_MiB, kRed);
  const std::vector<std::uintptr_t> all = {large->address, middle->address, small->address};
  SUBCASE("as many as requested") {
    const auto ranges = segments.plan_return(heap, 12_MiB);
    CHECK(addresses(ranges) == std::vector{all[0]});
  }
  SUBCASE("one more where a byte is missing") {
    const auto ranges = segments.plan_return(heap, 12_MiB + 1);
    CHECK(addresses(ranges) == std::vector{all[0], all[1]});
  }
  SUBCASE("all if more is requested") {
    auto ranges = segments.plan_return(heap, std::numeric_limits<std::size_t>::max());
    CHECK(addresses(ranges) == all);
    for (SegmentSource::Range& range : ranges) {
      CHECK(range.held->state() == Block::State::held);
      segments.give_back(range);
      segments.finish_return(heap, std::move(range));
      heap.validate();
    }
    CHECK(segments.freed == all);
    CHECK(heap.segments().size() == 2);
    CHECK(owned->state() == Block::State::free);
    CHECK(segments.plan_return(heap, 1).empty());
  }
}

TEST_CASE_FIXTURE(NumberedFixture,
                  "a new segment may have the addresses of one that is being returned") {
  const std::uintptr_t address = add(4_MiB, kUnowned)->address;
  const auto* const data = reinterpret_cast<const std::byte*>(address);
  CHECK(heap.covers(data));
  auto ranges = segments.plan_return(heap, 4_MiB);
  REQUIRE(ranges.size() == 1);
  CHECK_FALSE(heap.covers(data));  // from here on it may be another heap's
  CHECK_FALSE(segments.give_back(ranges[0]));
  segments.reuses_freed = true;
  Block* const again = add(8_MiB, kRed);
  REQUIRE(again->address == address);
  segments.finish_return(heap, std::move(ranges[0]));
  heap.validate();
  CHECK(heap.segments().size() == 1);
  CHECK(heap.find_covering(data) == again);
  CHECK(heap.free_bytes() == 8_MiB);
}

TEST_CASE_FIXTURE(NumberedFixture, "a segment whose return is refused is free again") {
  Block* const segment = add(4_MiB, kUnowned);
  auto ranges = segments.plan_return(heap, 4_MiB);
  REQUIRE(ranges.size() == 1);
  segments.refuses = true;
  CHECK(segments.give_back(ranges[0]).code == CUDA_ERROR_UNKNOWN);
  segments.separate_refused(heap, ranges, 0);
  CHECK(ranges[0].state == SegmentSource::Range::State::refused);
  CHECK(segments.keep(ranges[0]));
  segments.cancel_return(heap, std::move(ranges[0]));
  heap.validate();
  CHECK(heap.segments().at(segment->address) == segment);
  CHECK(heap.take(4_MiB, 4_MiB, kRed) == segment);
}

TEST_CASE_FIXTURE(NumberedFixture,
                  "the destructor frees every segment once, with or without live blocks") {
  Block* const owned = add(4_MiB, kRed);
  Block* const live = add(8_MiB, kRed);
  add(2_MiB, kUnowned);
  heap.take(1_MiB, 1_MiB, kUnowned);
  heap.take(8_MiB, 8_MiB, kRed);
  const std::uintptr_t first = owned->address;
  segments.give_back_all(heap);
  CHECK(segments.freed ==
        std::vector<std::uintptr_t>{first, live->address, first + 2 * 0x1'0000'0000});
}

TEST_CASE("device segments come from cuMemAlloc and go back to it, in multiples of 2 MiB") {
  TappedDevice device(devices_of_64_mib());
  BlockHeap heap;
  DeviceSegments segments(device.context, 20_MiB, 64_MiB);
  auto growth = segments.plan_growth(heap, 33_MiB, kRed, SegmentSource::Stitching::yes);
  REQUIRE(growth.has_value());
  CHECK(growth->bytes == 34_MiB);
  REQUIRE(segments.obtain(*growth));
  CHECK(device.simulator.live().allocations == 1);
  CHECK(device.simulator.device_bytes_used(0) == 34_MiB);
  segments.finish_growth(heap, *growth, 1, kUnowned);

  auto refused = segments.plan_growth(heap, 40_MiB, kRed, SegmentSource::Stitching::yes);
  REQUIRE(refused.has_value());
  CHECK_FALSE(segments.obtain(*refused));
  segments.cancel_growth(heap, *refused);
  heap.validate();
  CHECK(heap.segments().size() == 1);

  auto ranges = segments.plan_return(heap, 1);
  REQUIRE(ranges.size() == 1);
  segments.give_back(ranges.front());
  segments.finish_return(heap, std::move(ranges.front()));
  CHECK(device.simulator.live().allocations == 0);
  CHECK(device.reports.all().empty());
}

}  // namespace whole_segments_test
