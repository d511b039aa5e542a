/* SPDX-License-Identifier: Apache-2.0 */
// What the ABI promises about structs: where each field of a release stands, and what happens where
// the two sides know different lengths.
#include "check.h"
#include "parts.h"

#if UINTPTR_MAX == UINT64_MAX

#define AT(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #field " has moved: programs would break")

AT(berth_runtime_options, driver, 8);
AT(berth_runtime_options, flags, 16);
AT(berth_runtime_options, device_bytes_reserved_max, 24);
AT(berth_runtime_options, device_granule_bytes, 32);
AT(berth_runtime_options, device_segment_bytes, 40);
AT(berth_runtime_options, pinned_bytes_reserved_max, 48);
AT(berth_runtime_options, pinned_segment_bytes, 56);
AT(berth_runtime_options, streams_max, 64);
AT(berth_runtime_options, staging_slot_bytes, 72);
AT(berth_runtime_options, staging_slots, 80);
AT(berth_runtime_options, on_pressure, 88);
AT(berth_runtime_options, on_pressure_user, 96);
AT(berth_runtime_options, report, 104);
AT(berth_runtime_options, report_user, 112);
AT(berth_runtime_options, configuration, 120);
AT(berth_runtime_options, host_bytes_reserved_max, 128);
AT(berth_runtime_options, on_map, 136);
AT(berth_runtime_options, on_unmap, 144);
AT(berth_runtime_options, mapping_user, 152);

AT(berth_mapped_range, data, 8);
AT(berth_mapped_range, bytes, 16);
AT(berth_mapped_range, piece_bytes, 24);
AT(berth_mapped_range, device, 32);
AT(berth_mapped_range, is_alias, 36);

AT(berth_driver_info, name, 8);
AT(berth_driver_info, problem, 16);
AT(berth_driver_info, usable, 24);
AT(berth_driver_info, version, 28);

AT(berth_device_info, uuid, 8);
AT(berth_device_info, pci_bus_id, 16);
AT(berth_device_info, name, 24);
AT(berth_device_info, memory_bytes, 32);
AT(berth_device_info, physical, 40);
AT(berth_device_info, logical, 44);
AT(berth_device_info, flags, 48);
AT(berth_device_info, gpu_instance, 56);
AT(berth_device_info, compute_instance, 60);

AT(berth_device_facts, compute_capability_major, 8);
AT(berth_device_facts, compute_capability_minor, 12);
AT(berth_device_facts, multiprocessors, 16);
AT(berth_device_facts, copy_engines, 20);
AT(berth_device_facts, host_numa_node, 24);
AT(berth_device_facts, compute_mode, 28);

AT(berth_peer_facts, access, 8);
AT(berth_peer_facts, native_atomics, 12);
AT(berth_peer_facts, performance_rank, 16);
AT(berth_peer_facts, link, 20);

AT(berth_device_memory_use, bytes_total, 8);
AT(berth_device_memory_use, bytes_used, 16);
AT(berth_device_memory_use, process_count, 24);

AT(berth_memory_info, bytes_free, 8);
AT(berth_memory_info, bytes_total, 16);

AT(berth_memory_gauges, bytes_requested, 8);
AT(berth_memory_gauges, bytes_allocated, 24);
AT(berth_memory_gauges, bytes_active, 40);
AT(berth_memory_gauges, bytes_reserved, 56);
AT(berth_memory_gauges, blocks_allocated, 72);
AT(berth_memory_gauges, blocks_pending, 88);
AT(berth_memory_gauges, blocks_free, 104);
AT(berth_memory_gauges, bytes_metadata, 120);

AT(berth_memory_totals, allocations, 8);
AT(berth_memory_totals, frees, 16);
AT(berth_memory_totals, allocations_grown, 24);
AT(berth_memory_totals, frees_deferred, 32);
AT(berth_memory_totals, frees_reclaimed, 40);
AT(berth_memory_totals, blocks_passed_on, 48);
AT(berth_memory_totals, stream_waits_inserted, 56);
AT(berth_memory_totals, deferred_free_waits, 64);
AT(berth_memory_totals, segments_mapped, 72);
AT(berth_memory_totals, segments_released, 80);
AT(berth_memory_totals, page_remaps, 88);
AT(berth_memory_totals, limit_rejections, 96);
AT(berth_memory_totals, out_of_memory, 104);
AT(berth_memory_totals, allocations_last_freed, 112);
AT(berth_memory_totals, allocations_thread_cached, 120);
AT(berth_memory_totals, allocations_fitted, 128);
AT(berth_memory_totals, allocations_stitched, 136);

AT(berth_copy_counters, copies_direct, 8);
AT(berth_copy_counters, copies_staged, 16);
AT(berth_copy_counters, copies_host, 24);
AT(berth_copy_counters, bytes_copied, 32);
AT(berth_copy_counters, staging_waits, 40);
AT(berth_copy_counters, copies_by_driver, 48);
AT(berth_copy_counters, staging_bytes, 56);

AT(berth_memory_pool_options, name, 8);
AT(berth_memory_pool_options, flags, 16);
AT(berth_memory_pool_options, bytes_reserved_max, 24);
AT(berth_memory_pool_options, bytes_reserved_soft_max, 32);

AT(berth_transfer_options, on_done, 8);
AT(berth_transfer_options, user, 16);
AT(berth_transfer_options, release, 24);
AT(berth_transfer_options, owner, 32);
AT(berth_transfer_options, has_priority, 40);
AT(berth_transfer_options, priority, 44);
AT(berth_transfer_options, part_bytes, 48);

AT(berth_pinned_options, near, 8);
AT(berth_pinned_options, kind, 16);
AT(berth_pinned_options, flags, 20);

AT(berth_pinned_range, data, 8);
AT(berth_pinned_range, bytes, 16);
AT(berth_pinned_range, kind, 24);
AT(berth_pinned_range, numa_node, 28);

AT(berth_memory_properties, flags, 8);
AT(berth_memory_properties, segment, 16);
AT(berth_memory_properties, segment_bytes, 24);
AT(berth_memory_block, allocator, 8);
AT(berth_memory_block, data, 16);
AT(berth_memory_block, bytes, 24);
AT(berth_memory_block, device, 32);

AT(berth_segment_info, address, 8);
AT(berth_segment_info, bytes, 16);
AT(berth_segment_info, block_count, 24);
AT(berth_segment_info, numa_node, 32);
AT(berth_segment_info, write_combined, 36);

AT(berth_block_info, address, 8);
AT(berth_block_info, bytes, 16);
AT(berth_block_info, bytes_requested, 24);
AT(berth_block_info, data, 32);
AT(berth_block_info, stream, 40);
AT(berth_block_info, state, 48);
AT(berth_block_info, flags, 52);

AT(berth_handle_pool_options, name, 8);
AT(berth_handle_pool_options, create, 16);
AT(berth_handle_pool_options, destroy, 24);
AT(berth_handle_pool_options, bind, 32);
AT(berth_handle_pool_options, set_workspace, 40);
AT(berth_handle_pool_options, user, 48);
AT(berth_handle_pool_options, workspace_bytes, 56);
AT(berth_handle_pool_options, flags, 64);
AT(berth_handle_pool_options, handles_max, 72);

_Static_assert(sizeof(berth_device_map_entry) == 16, "in arrays: programs would break");
_Static_assert(sizeof(berth_device) == 8, "passed by value: programs would break");
_Static_assert(sizeof(berth_shard) == 32, "in arrays: programs would break");
_Static_assert(sizeof(berth_stream) == 16, "passed by value: programs would break");
_Static_assert(sizeof(berth_event) == 16, "passed by value: programs would break");
_Static_assert(sizeof(berth_process_memory) == 16, "in arrays: programs would break");
_Static_assert(sizeof(berth_gauge) == 16, "part of a struct: programs would break");
_Static_assert(sizeof(berth_status) == sizeof(int), "returned: programs would break");

#endif

/// An options struct as an older program would pass it: what it does not know is left unset.
static void shorter_options_leave_the_rest_at_its_default(void) {
  berth_runtime_options options;
  memset(&options, 0xA5, sizeof options);
  options.struct_size = offsetof(berth_runtime_options, flags);
  options.driver = NULL;
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(&options, &runtime));
  berth_runtime_destroy(runtime);
}

/// The first release's options had no `configuration`: what stands there is not read.
static void options_without_a_configuration_are_still_accepted(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.struct_size = offsetof(berth_runtime_options, configuration);
  options.configuration = "no such key";
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(&options, &runtime));
  berth_runtime_destroy(runtime);
}

static void options_of_a_wrong_size_are_refused_with_the_right_one(void) {
  berth_runtime* runtime = NULL;
  struct {
    berth_runtime_options known;
    uint64_t added_later;
  } options = {BERTH_RUNTIME_OPTIONS_INIT, 0};
  char expected[32];
  snprintf(expected, sizeof expected, "accepted: %zu", sizeof options.known);

  const size_t refused[] = {0, 4, 12, sizeof options, SIZE_MAX};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    options.known.struct_size = refused[i];
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, expected, berth_runtime_create(&options.known, &runtime));
  }
  CHECK(runtime == NULL);
}

static void shorter_output_is_written_up_to_its_end(berth_runtime* runtime) {
  berth_memory_info info;
  memset(&info, 0xA5, sizeof info);
  const uint64_t untouched = info.bytes_total;
  info.struct_size = offsetof(berth_memory_info, bytes_total);
  CHECK_OK(berth_device_get_memory_info(runtime, berth_device_cpu(), &info));
  CHECK(info.struct_size == offsetof(berth_memory_info, bytes_total));
  CHECK(info.bytes_free != untouched);
  CHECK(info.bytes_total == untouched);
}

static void output_of_a_wrong_size_is_refused_and_untouched(berth_runtime* runtime) {
  struct {
    berth_memory_info known;
    uint64_t added_later;
  } info = {{sizeof info, 1, 2}, 3};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"info\"",
              berth_device_get_memory_info(runtime, berth_device_cpu(), &info.known));
  CHECK(info.known.bytes_free == 1);
  CHECK(info.known.bytes_total == 2);

  berth_copy_counters counters = BERTH_COPY_COUNTERS_INIT;
  counters.struct_size = 0;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"counters\"", berth_copy_get_counters(runtime, &counters));
}

/// Neither of two outputs is written where one of them is refused.
static void outputs_are_written_together_or_not_at_all(const struct machine* machine) {
  berth_memory_gauges gauges = BERTH_MEMORY_GAUGES_INIT;
  berth_memory_totals totals = BERTH_MEMORY_TOTALS_INIT;
  gauges.bytes_reserved.peak = 7;
  totals.struct_size = sizeof totals + 8;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"totals\"",
              berth_allocator_get_counters(machine->memory, &gauges, &totals));
  CHECK(gauges.bytes_reserved.peak == 7);
}

void test_structs(void) {
  shorter_options_leave_the_rest_at_its_default();
  options_without_a_configuration_are_still_accepted();
  options_of_a_wrong_size_are_refused_with_the_right_one();
  struct machine machine = open_machine(NULL);
  shorter_output_is_written_up_to_its_end(machine.runtime);
  output_of_a_wrong_size_is_refused_and_untouched(machine.runtime);
  outputs_are_written_together_or_not_at_all(&machine);
  close_machine(&machine);
}
