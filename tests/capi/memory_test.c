/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

enum { kBytes = 100000 };

struct counters {
  berth_memory_gauges gauges;
  berth_memory_totals totals;
};

static struct counters read_counters(berth_allocator* allocator) {
  struct counters counters = {BERTH_MEMORY_GAUGES_INIT, BERTH_MEMORY_TOTALS_INIT};
  CHECK_OK(berth_allocator_get_counters(allocator, &counters.gauges, &counters.totals));
  return counters;
}

static bool owns(berth_allocator* allocator, const void* data) {
  bool found = false;
  CHECK_OK(berth_allocator_owns(allocator, data, &found));
  return found;
}

static void* find_pinned(berth_allocator* allocator, const void* data) {
  void* block = &block;
  CHECK_OK(berth_allocator_find_pinned(allocator, data, &block));
  return block;
}

static void* allocate(const struct machine* machine, berth_allocator* allocator, size_t bytes) {
  void* data = NULL;
  if (allocator == machine->pinned) {
    CHECK_OK(berth_allocator_allocate_pinned(allocator, bytes, &data));
  } else if (allocator == machine->host) {
    CHECK_OK(berth_allocator_allocate_host(allocator, bytes, &data));
  } else {
    CHECK_OK(berth_allocator_allocate(allocator, bytes, machine->stream, &data));
  }
  return data;
}

static void block_is_counted_while_it_lives(const struct machine* machine,
                                            berth_allocator* allocator) {
  const struct counters before = read_counters(allocator);
  void* const data = allocate(machine, allocator, kBytes);
  CHECK(data != NULL);
  const struct counters during = read_counters(allocator);
  CHECK(during.gauges.bytes_requested.current == before.gauges.bytes_requested.current + kBytes);
  CHECK(during.gauges.bytes_allocated.current >= during.gauges.bytes_requested.current);
  CHECK(during.gauges.bytes_reserved.current >= during.gauges.bytes_active.current);
  CHECK(during.totals.allocations == before.totals.allocations + 1);

  CHECK_OK(berth_allocator_deallocate(allocator, data));
  const struct counters after = read_counters(allocator);
  CHECK(after.gauges.bytes_requested.current == before.gauges.bytes_requested.current);
  CHECK(after.gauges.bytes_requested.peak >= kBytes);
  CHECK(after.totals.frees == before.totals.frees + 1);

  CHECK_OK(berth_allocator_reset_peaks(allocator));
  const struct counters reset = read_counters(allocator);
  CHECK(reset.gauges.bytes_requested.peak == reset.gauges.bytes_requested.current);
  CHECK(reset.totals.frees == after.totals.frees);
}

static void zero_bytes_are_null_and_null_can_be_freed(const struct machine* machine,
                                                      berth_allocator* allocator) {
  CHECK(allocate(machine, allocator, 0) == NULL);
  CHECK_OK(berth_allocator_deallocate(allocator, NULL));
}

static void pointer_that_is_no_live_block_is_refused(const struct machine* machine,
                                                     berth_allocator* allocator) {
  char foreign = 0;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "", berth_allocator_deallocate(allocator, &foreign));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "",
              berth_allocator_record_stream(allocator, &foreign, machine->stream));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "",
              berth_allocator_record_use(allocator, &foreign, machine->stream));
  char* const data = allocate(machine, allocator, kBytes);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "", berth_allocator_deallocate(allocator, data + 512));
  CHECK_OK(berth_allocator_deallocate(allocator, data));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "", berth_allocator_deallocate(allocator, data));
  CHECK(strlen(berth_last_error_message()) > 0);
}

typedef berth_status (*record_function)(berth_allocator* allocator, void* data,
                                        berth_stream stream);

/// `stream` has work pending on the block when it is freed.
static void recorded_stream_is_waited_for(const struct machine* machine, berth_allocator* allocator,
                                          record_function record) {
  berth_stream other;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &other));
  void* const busy = allocate(machine, machine->memory, kBytes);
  void* const data = allocate(machine, allocator, kBytes);
  CHECK_OK(berth_fill_async(machine->runtime, busy, 3, kBytes, other));
  CHECK_OK(record(allocator, data, other));
  const uint64_t pending = read_counters(allocator).gauges.blocks_pending.current;
  CHECK_OK(berth_allocator_deallocate(allocator, data));
  if (work_stays_pending(machine)) {
    CHECK(read_counters(allocator).gauges.blocks_pending.current == pending + 1);
    void* const elsewhere = allocate(machine, allocator, kBytes);
    CHECK(elsewhere != data);
    CHECK_OK(berth_allocator_deallocate(allocator, elsewhere));
  }
  CHECK_OK(berth_stream_sync(other));
  CHECK_OK(berth_allocator_deallocate(machine->memory, busy));
  CHECK_OK(berth_stream_release(machine->runtime, other));
}

static void trim_gives_back_what_is_cached(berth_allocator* allocator) {
  const uint64_t reserved = read_counters(allocator).gauges.bytes_reserved.current;
  CHECK(reserved > 0);
  size_t released = SIZE_MAX;
  CHECK_OK(berth_allocator_trim(allocator, SIZE_MAX, &released));
  CHECK(released == 0);
  CHECK_OK(berth_allocator_trim(allocator, 0, &released));
  CHECK(released == reserved - read_counters(allocator).gauges.bytes_reserved.current);
  CHECK(read_counters(allocator).gauges.bytes_reserved.current == 0);
}

static void what_is_not_needed_is_released(berth_allocator* allocator) {
  const uint64_t reserved = read_counters(allocator).gauges.bytes_reserved.current;
  CHECK(reserved > 0);
  size_t released = SIZE_MAX;
  CHECK_OK(berth_allocator_release_unused(allocator, UINT64_MAX, &released));
  CHECK(released == 0);
  CHECK_OK(berth_allocator_release_unused(allocator, 0, &released));
  CHECK(released == reserved);
  CHECK(read_counters(allocator).gauges.bytes_reserved.current == 0);
}

static void foreign_stream_can_be_retired(const struct machine* machine,
                                          berth_allocator* allocator) {
  berth_stream foreign;
  CHECK_OK(berth_stream_create(machine->runtime, machine->device, 0, 0, &foreign));
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, foreign, &data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  CHECK_OK(berth_allocator_retire_stream(allocator, foreign));
  CHECK_OK(berth_stream_destroy(foreign));
}

static void limit_is_kept_and_can_be_lifted(const struct machine* machine) {
  size_t released = 0;
  CHECK_OK(berth_allocator_trim(machine->memory, 0, &released));
  const struct counters before = read_counters(machine->memory);
  CHECK_OK(berth_allocator_set_limits(machine->memory, 0, BERTH_NO_LIMIT));
  void* data = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "",
              berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK(data == NULL);
  CHECK(strlen(berth_last_error_message()) > 0);
  const struct counters after = read_counters(machine->memory);
  CHECK(after.totals.out_of_memory == before.totals.out_of_memory + 1);

  CHECK_OK(berth_allocator_set_limits(machine->memory, BERTH_NO_LIMIT, BERTH_NO_LIMIT));
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void memory_of_the_callers_own_can_be_pinned(const struct machine* machine) {
  char* const own = aligned_alloc(4096, 1 << 20);
  CHECK(own != NULL);
  CHECK_OK(berth_allocator_register_pinned(machine->pinned, own, 1 << 20));
  CHECK(find_pinned(machine->pinned, own + 5000) == own);
  CHECK_OK(berth_allocator_record_stream(machine->pinned, own + 5000, machine->stream));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "overlaps",
              berth_allocator_register_pinned(machine->pinned, own + 4096, 4096));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "no registration starts",
              berth_allocator_unregister_pinned(machine->pinned, own + 1));
  CHECK_OK(berth_allocator_unregister_pinned(machine->pinned, own));
  CHECK(find_pinned(machine->pinned, own) == NULL);
  CHECK_OK(berth_allocator_register_pinned(machine->pinned, NULL, 0));
  CHECK_OK(berth_allocator_unregister_pinned(machine->pinned, NULL));
  free(own);
}

static void only_a_graph_in_the_making_can_keep_a_block(const struct machine* machine) {
  void* const data = allocate(machine, machine->pinned, kBytes);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "no graph is being captured",
              berth_allocator_keep_for_graph(machine->pinned, data, machine->stream));
  CHECK(read_counters(machine->pinned).gauges.blocks_in_graphs.current == 0);
  CHECK_OK(berth_allocator_deallocate(machine->pinned, data));
}

static void address_tells_whose_it_is(const struct machine* machine) {
  char* const device_data = allocate(machine, machine->memory, kBytes);
  char* const pinned_data = allocate(machine, machine->pinned, kBytes);
  CHECK(owns(machine->memory, device_data + 1));
  CHECK(!owns(machine->memory, pinned_data));
  CHECK(owns(machine->pinned, pinned_data) && !owns(machine->pinned, device_data));
  CHECK(!owns(machine->memory, NULL));
  CHECK(find_pinned(machine->pinned, pinned_data + kBytes - 1) == pinned_data);
  CHECK(find_pinned(machine->pinned, device_data) == NULL);
  CHECK(find_pinned(machine->pinned, NULL) == NULL);
  CHECK_OK(berth_allocator_deallocate(machine->memory, device_data));
  CHECK_OK(berth_allocator_deallocate(machine->pinned, pinned_data));
  CHECK(find_pinned(machine->pinned, pinned_data) == NULL);
}

static void host_memory_needs_no_stream_and_is_found_by_its_device(const struct machine* machine) {
  const berth_stream none = {NULL, NULL};
  berth_allocator* of_cpu = NULL;
  CHECK_OK(berth_allocator_get_device(machine->runtime, berth_device_cpu(), &of_cpu));
  CHECK(of_cpu == machine->host);
  berth_allocator* const of_host[] = {machine->host, machine->pinned};
  for (size_t i = 0; i < 2; ++i) {
    void* data = NULL;
    CHECK_OK(berth_allocator_allocate(of_host[i], kBytes, none, &data));
    CHECK(data != NULL);
    const uint64_t pending = read_counters(of_host[i]).gauges.blocks_pending.current;
    CHECK_OK(berth_allocator_deallocate(of_host[i], data));
    CHECK(read_counters(of_host[i]).gauges.blocks_pending.current == pending);
  }
}

static void each_kind_refuses_what_only_the_others_can(const struct machine* machine) {
  void* data = NULL;
  bool found = false;
  berth_allocator* const of_host[] = {machine->pinned, machine->host};
  for (size_t i = 0; i < 2; ++i) {
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "host memory",
                berth_allocator_set_limits(of_host[i], 1, BERTH_NO_LIMIT));
  }
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "host memory",
              berth_allocator_owns(machine->host, &data, &found));
  berth_allocator* const not_pinned[] = {machine->memory, machine->host};
  for (size_t i = 0; i < 2; ++i) {
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "pinned",
                berth_allocator_allocate_pinned(not_pinned[i], 1, &data));
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "pinned",
                berth_allocator_find_pinned(not_pinned[i], &data, &data));
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "pinned",
                berth_allocator_register_pinned(not_pinned[i], &data, 8));
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "pinned",
                berth_allocator_keep_for_graph(not_pinned[i], &data, machine->stream));
  }
  berth_allocator* const not_host[] = {machine->memory, machine->pinned};
  for (size_t i = 0; i < 2; ++i) {
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cpu",
                berth_allocator_allocate_host(not_host[i], 1, &data));
  }
  CHECK(data == NULL);
}

static void stream_of_another_runtime_is_refused(const struct machine* machine) {
  struct machine other = open_machine(NULL);
  berth_allocator* const allocators[] = {machine->memory, machine->pinned, machine->host};
  for (size_t i = 0; i < 3; ++i) {
    void* const data = allocate(machine, allocators[i], kBytes);
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "Runtime",
                berth_allocator_record_stream(allocators[i], data, other.stream));
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "Runtime",
                berth_allocator_record_use(allocators[i], data, other.stream));
    if (allocators[i] == machine->pinned) {
      CHECK_FAILS(BERTH_INVALID_ARGUMENT, "another Runtime",
                  berth_allocator_keep_for_graph(machine->pinned, data, other.stream));
    }
    CHECK_OK(berth_allocator_deallocate(allocators[i], data));
  }
  close_machine(&other);
}

void test_memory(void) {
  struct machine machine = open_machine(NULL);
  berth_allocator* const allocators[] = {machine.memory, machine.pinned, machine.host};
  for (size_t i = 0; i < 3; ++i) {
    block_is_counted_while_it_lives(&machine, allocators[i]);
    zero_bytes_are_null_and_null_can_be_freed(&machine, allocators[i]);
    pointer_that_is_no_live_block_is_refused(&machine, allocators[i]);
    recorded_stream_is_waited_for(&machine, allocators[i], berth_allocator_record_stream);
    recorded_stream_is_waited_for(&machine, allocators[i], berth_allocator_record_use);
    foreign_stream_can_be_retired(&machine, allocators[i]);
    if (allocators[i] == machine.host) continue;  // caches nothing
    trim_gives_back_what_is_cached(allocators[i]);
    block_is_counted_while_it_lives(&machine, allocators[i]);
    what_is_not_needed_is_released(allocators[i]);
  }
  limit_is_kept_and_can_be_lifted(&machine);
  memory_of_the_callers_own_can_be_pinned(&machine);
  only_a_graph_in_the_making_can_keep_a_block(&machine);
  address_tells_whose_it_is(&machine);
  host_memory_needs_no_stream_and_is_found_by_its_device(&machine);
  each_kind_refuses_what_only_the_others_can(&machine);
  stream_of_another_runtime_is_refused(&machine);
  close_machine(&machine);
}
