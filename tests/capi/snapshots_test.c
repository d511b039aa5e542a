/* SPDX-License-Identifier: Apache-2.0 */
// The blocks of an allocator, in C.
#include "check.h"
#include "parts.h"

enum { kBytes = 100000 };

/// The one block of the snapshot whose data is at `data`; checks that the others tile their
/// segments.
static berth_block_info block_at(berth_memory_snapshot* snapshot, const void* data) {
  berth_memory_snapshot_info info = BERTH_MEMORY_SNAPSHOT_INFO_INIT;
  CHECK_OK(berth_memory_snapshot_get_info(snapshot, &info));
  berth_block_info found = BERTH_BLOCK_INFO_INIT;
  for (size_t i = 0; i < info.segment_count; ++i) {
    berth_segment_info segment = BERTH_SEGMENT_INFO_INIT;
    CHECK_OK(berth_memory_snapshot_get_segment(snapshot, i, &segment));
    uint64_t end = segment.address;
    for (size_t j = 0; j < segment.block_count; ++j) {
      berth_block_info block = BERTH_BLOCK_INFO_INIT;
      CHECK_OK(berth_memory_snapshot_get_block(snapshot, i, j, &block));
      CHECK(block.address == end);
      end += block.bytes;
      if (block.data == (uintptr_t)data && block.state == BERTH_BLOCK_ALLOCATED) found = block;
    }
    CHECK(end == segment.address + segment.bytes);
    berth_block_info unchanged = BERTH_BLOCK_INFO_INIT;
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"block\"",
                berth_memory_snapshot_get_block(snapshot, i, segment.block_count, &unchanged));
  }
  berth_segment_info unchanged = BERTH_SEGMENT_INFO_INIT;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"segment\"",
              berth_memory_snapshot_get_segment(snapshot, info.segment_count, &unchanged));
  return found;
}

static void snapshot_has_every_block(const struct machine* machine) {
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  berth_memory_snapshot* snapshot = NULL;
  CHECK_OK(berth_memory_snapshot_take(machine->memory, &snapshot));
  const berth_block_info block = block_at(snapshot, data);
  CHECK(block.bytes_requested == kBytes && block.bytes >= kBytes);
  CHECK((block.flags & BERTH_BLOCK_HAS_STREAM) != 0 && block.stream == machine->stream.native);

  berth_memory_gauges gauges = BERTH_MEMORY_GAUGES_INIT;
  berth_memory_totals totals = BERTH_MEMORY_TOTALS_INIT;
  CHECK_OK(berth_memory_snapshot_get_counters(snapshot, &gauges, &totals));
  CHECK(gauges.bytes_requested.current == kBytes && totals.allocations > 0);
  char* lines = NULL;
  CHECK_OK(berth_memory_snapshot_find_discrepancies(snapshot, &lines));
  CHECK(strcmp(lines, "") == 0);
  berth_string_free(lines);
  berth_memory_snapshot_release(snapshot);
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void snapshots_of_pools_have_their_names(const struct machine* machine) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  berth_memory_pool* pools[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    options.name = i == 0 ? "first" : "second";
    CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &pools[i]));
  }
  size_t count = 0;
  CHECK_OK(berth_memory_snapshot_take_pools(machine->runtime, machine->device, NULL, 0, &count));
  CHECK(count == 2);
  berth_memory_snapshot* snapshots[3] = {NULL, NULL, NULL};
  CHECK_OK(
      berth_memory_snapshot_take_pools(machine->runtime, machine->device, snapshots, 3, &count));
  CHECK(count == 2 && snapshots[2] == NULL);
  for (int i = 0; i < 2; ++i) {
    berth_memory_snapshot_info info = BERTH_MEMORY_SNAPSHOT_INFO_INIT;
    CHECK_OK(berth_memory_snapshot_get_info(snapshots[i], &info));
    CHECK(strcmp(info.allocator, i == 0 ? "cuda:0/first" : "cuda:0/second") == 0);
    berth_memory_snapshot_release(snapshots[i]);
    berth_memory_pool_close(pools[i]);
  }
  berth_memory_snapshot_release(NULL);
}

/// `data` is found by its last byte as well.
static void check_found(const struct machine* machine, berth_allocator* allocator,
                        const char* data) {
  for (int offset = 0; offset < kBytes; offset += kBytes - 1) {
    berth_memory_block block = BERTH_MEMORY_BLOCK_INIT;
    CHECK_OK(berth_memory_find(machine->runtime, data + offset, &block));
    CHECK(block.allocator == allocator && block.data == data && block.bytes == kBytes);
    berth_device location = {-1, -1};
    CHECK_OK(berth_allocator_get_location(allocator, &location));
    CHECK(location.type == block.device.type && location.ordinal == block.device.ordinal);
  }
}

static void memory_is_found_by_its_address(const struct machine* machine) {
  berth_allocator* const allocators[] = {machine->memory, machine->pinned, machine->host};
  for (int i = 0; i < 3; ++i) {
    void* data = NULL;
    CHECK_OK(berth_allocator_allocate(allocators[i], kBytes, machine->stream, &data));
    check_found(machine, allocators[i], data);
    CHECK_OK(berth_allocator_deallocate(allocators[i], data));
  }
  berth_memory_block block = {sizeof block, machine->memory, &block, 1, {1, 0}};
  CHECK_OK(berth_memory_find(machine->runtime, &block, &block));
  CHECK(block.allocator == NULL && block.data == NULL && block.bytes == 0);
}

static void pinned_memory_has_options_and_counters(const struct machine* machine) {
  berth_pinned_options options = BERTH_PINNED_OPTIONS_INIT;
  options.near = machine->device;
  options.kind = BERTH_PINNED_WRITE_COMBINED;
  options.flags = BERTH_PINNED_NO_WAIT;
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate_pinned_with(machine->pinned, kBytes, &options, &data));
  berth_pinned_range range = BERTH_PINNED_RANGE_INIT;
  CHECK_OK(berth_allocator_get_pinned_range(machine->pinned, (char*)data + 1, &range));
  CHECK(range.data == data && range.bytes == kBytes && range.kind == BERTH_PINNED_WRITE_COMBINED);
  berth_pinned_counters counters = BERTH_PINNED_COUNTERS_INIT;
  CHECK_OK(berth_allocator_get_pinned_counters(machine->pinned, &counters));
  CHECK(counters.segments_by_callers > 0 && counters.bytes_registered == 0);
  CHECK_OK(berth_allocator_finish_background_work(machine->pinned));
  CHECK_OK(berth_allocator_deallocate(machine->pinned, data));
  CHECK_OK(berth_allocator_get_pinned_range(machine->pinned, data, &range));
  CHECK(range.data == NULL && range.numa_node == -1);

  options.kind = BERTH_PINNED_REGISTERED;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "registered",
              berth_allocator_allocate_pinned_with(machine->pinned, 1, &options, &data));
  options.kind = 3;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "options.kind",
              berth_allocator_allocate_pinned_with(machine->pinned, 1, &options, &data));
  options.kind = BERTH_PINNED_PORTABLE;
  options.flags = 2;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "options.flags",
              berth_allocator_allocate_pinned_with(machine->pinned, 1, &options, &data));
}

void test_snapshots(void) {
  struct machine machine = open_machine(NULL);
  snapshot_has_every_block(&machine);
  snapshots_of_pools_have_their_names(&machine);
  memory_is_found_by_its_address(&machine);
  pinned_memory_has_options_and_counters(&machine);
  close_machine(&machine);
}
