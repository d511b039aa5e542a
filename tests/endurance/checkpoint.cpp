// SPDX-License-Identifier: Apache-2.0
#include "endurance/checkpoint.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "berth/statistics.hpp"

#include "endurance/failure.hpp"

namespace berth::endurance {
namespace {

void require_equal(const char* name, std::uint64_t is, std::uint64_t should_be) {
  if (is != should_be) fail(fmt::format("{} is {} and should be {}", name, is, should_be));
}

/// A stitched block shows at `data` the memory that its parts have at home.
void check_place(Machine& machine, const BlockInfo& block) {
  const PageTable& pages = machine.watch.pages();
  if (block.data != block.address) {
    require((block.data - block.address) % kPageBytes == 0, "a window that is not aligned");
    for (std::size_t at = 0; at < block.bytes; at += kBlockAlignment) {
      if (at > 0 && (block.address + at) % kPageBytes != 0) continue;
      const Frame home = pages.find(block.address + at);
      require(home != kNoFrame && home == pages.find(block.data + at),
              "a window shows other memory than that of its block");
    }
  }
  Claims& claims = machine.watch.claims();
  const bool is_right = block.state == BlockState::allocated
                            ? claims.all(block.address, block.bytes)
                            : claims.none(block.address, block.bytes);
  require(is_right, "a block in use is not its user's alone, or a free one is somebody's");
}

void check_blocks(Machine& machine, const MemorySnapshot& snapshot,
                  const std::vector<LiveBlock>& live) {
  std::vector<std::uintptr_t> found;
  for (const SegmentInfo& segment : snapshot.segments) {
    for (const BlockInfo& block : segment.blocks) {
      check_place(machine, block);
      if (block.state == BlockState::allocated && !block.continues) found.push_back(block.data);
    }
  }
  std::ranges::sort(found);
  require(std::ranges::equal(found, live, {}, {}, &LiveBlock::address),
          "the allocator's blocks in use are not those that the program has");
}

void check_tags(Machine& machine, const std::vector<LiveBlock>& live) {
  for (const LiveBlock& block : live)
    require(!block.tag || machine.has_tag(block.address, block.bytes, *block.tag),
            "a live block has bytes that are not its own");
}

}  // namespace

void check_all(Machine& machine, std::vector<LiveBlock> live, const Tally& tally) {
  machine.simulator.run_all();
  for (const std::string& finding : machine.simulator.take_findings()) fail(finding);
  const DeviceAllocator& memory = *machine.memory;
  memory.validate();
  const MemorySnapshot snapshot = memory.snapshot();
  for (const std::string& line : find_discrepancies(snapshot)) fail(line);
  Sums sums;
  for (const LiveBlock& block : live) sums.add(block, kPageBytes);
  const MemoryCounters& counters = snapshot.counters;
  require_equal("bytes_requested", counters.bytes_requested.current, sums.bytes_requested);
  require_equal("bytes_allocated", counters.bytes_allocated.current, sums.bytes_allocated);
  require_equal("blocks_allocated", counters.blocks_allocated.current, sums.blocks);
  require_equal("allocations", counters.allocations, tally.allocations);
  require_equal("frees", counters.frees, tally.frees);
  require_equal("out_of_memory", counters.out_of_memory, tally.refusals);
  std::ranges::sort(live, {}, &LiveBlock::address);
  check_blocks(machine, snapshot, live);
  check_tags(machine, live);
}

}  // namespace berth::endurance
