// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/text_list.hpp"
#include "capi/capi_allocator.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_counters.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_memory_snapshot {
  MemorySnapshot snapshot;
};

static_assert(int(BlockState::allocated) == BERTH_BLOCK_ALLOCATED);
static_assert(int(BlockState::pending) == BERTH_BLOCK_PENDING);
static_assert(int(BlockState::free) == BERTH_BLOCK_FREE);

namespace {

const MemorySnapshot& to_snapshot(berth_memory_snapshot* snapshot) {
  return require(snapshot, "snapshot").snapshot;
}

template <class T>
const T& element(const std::vector<T>& list, std::size_t index, const char* parameter) {
  if (index < list.size()) return list[index];
  throw InvalidArgument(format_text("\"{}\" is {}; accepted: numbers below {}, how many there are",
                                    parameter, index, list.size()));
}

berth_block_info from_block(const BlockInfo& block) noexcept {
  return {.struct_size = 0,
          .address = block.address,
          .bytes = block.bytes,
          .bytes_requested = block.bytes_requested,
          .data = block.data,
          .stream = block.stream.value_or(nullptr),
          .state = int(block.state),
          .flags = (block.stream ? int{BERTH_BLOCK_HAS_STREAM} : 0) |
                   (block.continues ? int{BERTH_BLOCK_CONTINUES} : 0)};
}

}  // namespace

berth_status berth_memory_snapshot_take(berth_allocator* allocator,
                                        berth_memory_snapshot** snapshot) {
  return guarded([&] {
    const Allocator& any = to_allocator(allocator);
    auto& out = require(snapshot, "snapshot");
    out = new berth_memory_snapshot{any.snapshot()};
  });
}

berth_status berth_memory_snapshot_take_pools(berth_runtime* runtime, berth_device device,
                                              berth_memory_snapshot** snapshots,
                                              std::size_t capacity, std::size_t* count) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    if (capacity > 0) require(snapshots, "snapshots");
    auto& out = require(count, "count");
    std::vector<std::unique_ptr<berth_memory_snapshot>> taken;
    for (MemorySnapshot& pool : owner.memory(to_device(device)).pool_snapshots())
      taken.push_back(
          std::make_unique<berth_memory_snapshot>(berth_memory_snapshot{std::move(pool)}));
    for (std::size_t index = 0; index < taken.size() && index < capacity; ++index)
      snapshots[index] = taken[index].release();
    out = taken.size();
  });
}

void berth_memory_snapshot_release(berth_memory_snapshot* snapshot) {
  delete snapshot;
}

berth_status berth_memory_snapshot_get_info(berth_memory_snapshot* snapshot,
                                            berth_memory_snapshot_info* info) {
  return guarded([&] {
    const MemorySnapshot& taken = to_snapshot(snapshot);
    auto& out = require_struct(info, "info");
    write_struct({.struct_size = 0,
                  .allocator = taken.allocator.c_str(),
                  .segment_count = taken.segments.size(),
                  .largest_free_block_bytes = taken.largest_free_block_bytes},
                 out);
  });
}

berth_status berth_memory_snapshot_get_counters(berth_memory_snapshot* snapshot,
                                                berth_memory_gauges* gauges,
                                                berth_memory_totals* totals) {
  return guarded([&] { write_counters(to_snapshot(snapshot).counters, gauges, totals); });
}

berth_status berth_memory_snapshot_get_segment(berth_memory_snapshot* snapshot, std::size_t segment,
                                               berth_segment_info* info) {
  return guarded([&] {
    const SegmentInfo& known = element(to_snapshot(snapshot).segments, segment, "segment");
    auto& out = require_struct(info, "info");
    write_struct({.struct_size = 0,
                  .address = known.address,
                  .bytes = known.bytes,
                  .block_count = known.blocks.size(),
                  .numa_node = known.numa_node.value_or(-1),
                  .write_combined = known.write_combined ? 1 : 0},
                 out);
  });
}

berth_status berth_memory_snapshot_get_block(berth_memory_snapshot* snapshot, std::size_t segment,
                                             std::size_t block, berth_block_info* info) {
  return guarded([&] {
    const SegmentInfo& of = element(to_snapshot(snapshot).segments, segment, "segment");
    const BlockInfo& known = element(of.blocks, block, "block");
    write_struct(from_block(known), require_struct(info, "info"));
  });
}

berth_status berth_memory_snapshot_find_discrepancies(berth_memory_snapshot* snapshot,
                                                      char** lines) {
  return guarded([&] {
    const MemorySnapshot& taken = to_snapshot(snapshot);
    auto& out = require(lines, "lines");
    out = to_owned_text(join_texts(find_discrepancies(taken), "\n"));
  });
}
