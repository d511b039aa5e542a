// SPDX-License-Identifier: Apache-2.0
// The sums that must agree between the counters and the blocks of a snapshot. docs/statistics.md
// lists the same rules.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "berth/statistics.hpp"

#include "base/format.hpp"

namespace berth {
namespace {

/// Sums over the blocks of a snapshot.
struct BlockSums {
  std::uint64_t bytes_requested = 0;  ///< of allocated blocks
  std::uint64_t bytes_allocated = 0;
  std::uint64_t bytes_pending = 0;
  std::uint64_t bytes_segments = 0;
  std::uint64_t blocks_allocated = 0;
  std::uint64_t blocks_pending = 0;
  std::uint64_t blocks_free = 0;
  std::uint64_t largest_free_block_bytes = 0;

  void add(const BlockInfo& block) {
    switch (block.state) {
      case BlockState::allocated:
        bytes_requested += block.bytes_requested;
        bytes_allocated += block.bytes;
        blocks_allocated += block.continues ? 0 : 1;
        break;
      case BlockState::pending:
        bytes_pending += block.bytes;
        blocks_pending += block.continues ? 0 : 1;
        break;
      case BlockState::free:
        largest_free_block_bytes = std::max<std::uint64_t>(largest_free_block_bytes, block.bytes);
        blocks_free += block.continues ? 0 : 1;
        break;
    }
  }
};

class Examination {
 public:
  explicit Examination(const MemorySnapshot& snapshot) : snapshot_(snapshot) {}

  std::vector<std::string> run() {
    for (const SegmentInfo& segment : snapshot_.segments) {
      examine_segment(segment);
      sums_.bytes_segments += segment.bytes;
      for (const BlockInfo& block : segment.blocks) {
        examine_block(block);
        sums_.add(block);
      }
    }
    compare_with_blocks();
    compare_counters();
    return std::move(lines_);
  }

 private:
  template <class... Values>
  void report(fmt::format_string<Values...> format, Values&&... values) {
    lines_.push_back(snapshot_.allocator + ": " +
                     format_text(format, std::forward<Values>(values)...));
  }

  /// Segments are in address order without overlap, and blocks tile them.
  void examine_segment(const SegmentInfo& segment) {
    if (segment.bytes == 0 || segment.address + segment.bytes < segment.address)
      report("segment {:#x} of {} bytes is no range of addresses", segment.address, segment.bytes);
    if (segment.address < segments_end_)
      report("segment {:#x} begins before the end of the one before it, {:#x}", segment.address,
             segments_end_);
    segments_end_ = segment.address + segment.bytes;

    std::uintptr_t expected = segment.address;
    for (const BlockInfo& block : segment.blocks) {
      if (block.address != expected)
        report("segment {:#x}: a block begins at {:#x}, the one before it ends at {:#x}",
               segment.address, block.address, expected);
      expected = block.address + block.bytes;
    }
    if (expected != segments_end_)
      report("segment {:#x}: its blocks end at {:#x}, the segment at {:#x}", segment.address,
             expected, segments_end_);
  }

  void examine_block(const BlockInfo& block) {
    if (block.bytes == 0) report("block {:#x} has 0 bytes", block.address);
    if (block.bytes_requested > block.bytes)
      report("block {:#x} has {} bytes, but {} were requested", block.address, block.bytes,
             block.bytes_requested);
    if (block.state == BlockState::free && block.bytes_requested != 0)
      report("block {:#x} is free, but has bytes_requested {} instead of 0", block.address,
             block.bytes_requested);
    if (block.state == BlockState::allocated && block.bytes_requested == 0)
      report("block {:#x} is allocated, but has bytes_requested 0", block.address);
  }

  void compare_with_blocks() {
    const MemoryCounters& counters = snapshot_.counters;
    expect_sum("bytes_requested", counters.bytes_requested, sums_.bytes_requested,
               "allocated blocks request");
    expect_sum("bytes_allocated", counters.bytes_allocated, sums_.bytes_allocated,
               "allocated blocks hold");
    expect_sum("bytes_active", counters.bytes_active, sums_.bytes_allocated + sums_.bytes_pending,
               "allocated and pending blocks hold");
    const std::uint64_t held = bytes_in_segments();
    if (held != sums_.bytes_segments) {
      report("bytes_reserved and bytes_asleep without bytes_unreturnable are {}, segments hold {}",
             held, sums_.bytes_segments);
    }
    expect_sum("blocks_allocated", counters.blocks_allocated, sums_.blocks_allocated,
               "allocated blocks number");
    expect_sum("blocks_pending", counters.blocks_pending, sums_.blocks_pending,
               "pending blocks number");
    expect_sum("blocks_free", counters.blocks_free, sums_.blocks_free, "free blocks number");
    if (snapshot_.largest_free_block_bytes != sums_.largest_free_block_bytes)
      report("largest_free_block_bytes is {}, the largest free block has {}",
             snapshot_.largest_free_block_bytes, sums_.largest_free_block_bytes);
  }

  [[nodiscard]] std::uint64_t bytes_in_segments() const {
    const MemoryCounters& counters = snapshot_.counters;
    return counters.bytes_reserved.current + counters.bytes_asleep.current -
           counters.bytes_unreturnable.current;
  }

  void expect_sum(const char* name, const Gauge& gauge, std::uint64_t sum, const char* what) {
    if (gauge.current != sum) report("{} is {}, {} {}", name, gauge.current, what, sum);
  }

  void compare_counters() {
    const MemoryCounters& counters = snapshot_.counters;
    expect_at_most("bytes_requested", counters.bytes_requested, "bytes_allocated",
                   counters.bytes_allocated);
    expect_at_most("bytes_allocated", counters.bytes_allocated, "bytes_active",
                   counters.bytes_active);
    const std::uint64_t held = bytes_in_segments();
    if (counters.bytes_active.current > held) {
      report(
          "bytes_active is {}, above bytes_reserved and bytes_asleep without bytes_unreturnable, "
          "{}",
          counters.bytes_active.current, held);
    }
#define BERTH_EXPECT_PEAK(name, help)             \
  if (counters.name.peak < counters.name.current) \
    report(#name " is {}, above its peak {}", counters.name.current, counters.name.peak);
    BERTH_MEMORY_GAUGES(BERTH_EXPECT_PEAK)
#undef BERTH_EXPECT_PEAK
    // Unsigned differences: if there are more frees than allocations, the result wraps to a number
    // that is not a block count.
    if (counters.allocations - counters.frees != counters.blocks_allocated.current)
      report("{} allocations less {} frees, but blocks_allocated is {}", counters.allocations,
             counters.frees, counters.blocks_allocated.current);
    if (counters.frees_deferred - counters.frees_reclaimed != counters.blocks_pending.current)
      report("{} frees_deferred less {} frees_reclaimed, but blocks_pending is {}",
             counters.frees_deferred, counters.frees_reclaimed, counters.blocks_pending.current);
  }

  void expect_at_most(const char* low_name, const Gauge& low, const char* high_name,
                      const Gauge& high) {
    if (low.current > high.current)
      report("{} is {}, above {} with {}", low_name, low.current, high_name, high.current);
  }

  const MemorySnapshot& snapshot_;
  BlockSums sums_;
  std::uintptr_t segments_end_ = 0;  ///< of the segments checked so far
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> find_discrepancies(const MemorySnapshot& snapshot) {
  return Examination(snapshot).run();
}

}  // namespace berth
