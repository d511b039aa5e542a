// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/statistics.hpp"

#include "stats/statistics_samples.hpp"

namespace discrepancies_test {

using namespace berth;
using namespace berth::test;

namespace {

using Lines = std::vector<std::string>;

/// What is found after `change` to a snapshot in which all adds up.
Lines find_after(const std::function<void(MemorySnapshot&)>& change) {
  MemorySnapshot snapshot = snapshot_that_adds_up();
  change(snapshot);
  return find_discrepancies(snapshot);
}

}  // namespace

TEST_CASE("a consistent snapshot and an empty one have no discrepancies") {
  CHECK(find_discrepancies(snapshot_that_adds_up()).empty());
  CHECK(find_discrepancies(MemorySnapshot()).empty());
}

TEST_CASE("each gauge that differs from its blocks gives one line with both numbers") {
  CHECK(find_after([](MemorySnapshot& s) { s.counters.bytes_requested.current -= 1; }) ==
        Lines{"cuda:0: bytes_requested is 3146727, allocated blocks request 3146728"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.bytes_allocated.current -= 1; }) ==
        Lines{"cuda:0: bytes_allocated is 4194303, allocated blocks hold 4194304"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.bytes_active.current += 1; }) ==
        Lines{"cuda:0: bytes_active is 5242881, allocated and pending blocks hold 5242880"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.bytes_reserved.current += 1; }) ==
        Lines{"cuda:0: bytes_reserved and bytes_asleep without bytes_unreturnable are 12582913, "
              "segments hold 12582912"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.blocks_free.current += 1; }) ==
        Lines{"cuda:0: blocks_free is 3, free blocks number 2"});
  CHECK(find_after([](MemorySnapshot& s) { s.largest_free_block_bytes -= 1; }) ==
        Lines{"cuda:0: largest_free_block_bytes is 5242879, the largest free block has 5242880"});
}

TEST_CASE(
    "allocations minus frees are the live blocks, and deferred minus reclaimed the pending ones") {
  CHECK(find_after([](MemorySnapshot& s) { s.counters.allocations += 1; }) ==
        Lines{"cuda:0: 1234568 allocations less 1234565 frees, but blocks_allocated is 2"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.frees += 3; }) ==
        Lines{"cuda:0: 1234567 allocations less 1234568 frees, but blocks_allocated is 2"});
  CHECK(find_after([](MemorySnapshot& s) { s.counters.frees_reclaimed += 1; }) ==
        Lines{"cuda:0: 44 frees_deferred less 44 frees_reclaimed, but blocks_pending is 1"});
  CHECK(find_after([](MemorySnapshot& s) {
          s.counters.blocks_allocated.current += 1;
          s.counters.allocations += 1;
        }) == Lines{"cuda:0: blocks_allocated is 3, allocated blocks number 2"});
  CHECK(find_after([](MemorySnapshot& s) {
          s.counters.blocks_pending.current += 1;
          s.counters.frees_deferred += 1;
        }) == Lines{"cuda:0: blocks_pending is 2, pending blocks number 1"});
}

TEST_CASE("requested, allocated, active and reserved rise in that order") {
  const auto has = [](const Lines& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  CHECK(has(find_after([](MemorySnapshot& s) { s.counters.bytes_requested.current = 4194305; }),
            "cuda:0: bytes_requested is 4194305, above bytes_allocated with 4194304"));
  CHECK(has(find_after([](MemorySnapshot& s) { s.counters.bytes_allocated.current = 5242881; }),
            "cuda:0: bytes_allocated is 5242881, above bytes_active with 5242880"));
  CHECK(has(find_after([](MemorySnapshot& s) { s.counters.bytes_active.current = 12582913; }),
            "cuda:0: bytes_active is 12582913, above bytes_reserved and bytes_asleep without "
            "bytes_unreturnable, 12582912"));
}

TEST_CASE("every gauge's peak is at least its current value") {
#define BERTH_CHECK_PEAK(name, help)                          \
  CHECK(find_after([](MemorySnapshot& s) {                    \
          s.counters.name.peak = s.counters.name.current - 1; \
        }).size() == 1);
  BERTH_MEMORY_GAUGES(BERTH_CHECK_PEAK)
#undef BERTH_CHECK_PEAK
  CHECK(find_after([](MemorySnapshot& s) { s.counters.blocks_free.peak = 1; }) ==
        Lines{"cuda:0: blocks_free is 2, above its peak 1"});
}

TEST_CASE("gaps, overlaps and missing ends of blocks in a segment are found") {
  CHECK(find_after([](MemorySnapshot& s) { s.segments[0].blocks[1].address += 512; }).front() ==
        "cuda:0: segment 0x7f0000000000: a block begins at 0x7f0000100200, the one before it ends "
        "at 0x7f0000100000");
  CHECK(find_after([](MemorySnapshot& s) {
          std::swap(s.segments[0].blocks[1], s.segments[0].blocks[2]);
        }).size() == 3);
  CHECK(find_after([](MemorySnapshot& s) { s.segments[1].blocks.pop_back(); }).front() ==
        "cuda:0: segment 0x7f0010000000: its blocks end at 0x7f0010500000, the segment at "
        "0x7f0010800000");
  CHECK(find_after([](MemorySnapshot& s) { s.segments[0].address -= 512; }).front() ==
        "cuda:0: segment 0x7efffffffe00: a block begins at 0x7f0000000000, the one before it ends "
        "at 0x7efffffffe00");
}

TEST_CASE("segments out of order, overlapping, empty or beyond the address space are found") {
  CHECK(find_after([](MemorySnapshot& s) { std::swap(s.segments[0], s.segments[1]); }) ==
        Lines{"cuda:0: segment 0x7f0000000000 begins before the end of the one before it, "
              "0x7f0010800000"});
  CHECK(find_after([](MemorySnapshot& s) {
          s.segments.push_back({0x7f0020000000, 0, {}});
        }) == Lines{"cuda:0: segment 0x7f0020000000 of 0 bytes is no range of addresses"});
  CHECK_FALSE(find_after([](MemorySnapshot& s) { s.segments[1].bytes = ~std::size_t{0}; }).empty());
}

TEST_CASE("blocks of impossible sizes are found") {
  CHECK(find_after([](MemorySnapshot& s) {
          s.segments[0].blocks[1].bytes_requested = 1_MiB + 1;
        }) == Lines{"cuda:0: block 0x7f0000100000 has 1048576 bytes, but 1048577 were requested"});
  CHECK(find_after([](MemorySnapshot& s) { s.segments[1].blocks[0].bytes_requested = 7; }) ==
        Lines{"cuda:0: block 0x7f0010000000 is free, but has bytes_requested 7 instead of 0"});
  CHECK(find_after([](MemorySnapshot& s) {
          s.segments[0].blocks[0].bytes_requested = 0;
          s.counters.bytes_requested.current -= 1000;
        }) == Lines{"cuda:0: block 0x7f0000000000 is allocated, but has bytes_requested 0"});
  CHECK(find_after([](MemorySnapshot& s) {
          s.segments[0].blocks.push_back({0x7f0000400000, 0, 0, BlockState::free, nullptr});
          s.counters.blocks_free.current += 1;
        }) == Lines{"cuda:0: block 0x7f0000400000 has 0 bytes"});
}

}  // namespace discrepancies_test
