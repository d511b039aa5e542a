/* SPDX-License-Identifier: Apache-2.0 */
// Versions, options and callbacks.
#include "check.h"
#include "parts.h"

static void version_is_the_projects(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR,
           BERTH_VERSION_PATCH);
  CHECK(strcmp(text, BERTH_PROJECT_VERSION) == 0);
  CHECK(berth_version() == BERTH_VERSION);
}

static void status_names_are_their_constants(void) {
  CHECK(strcmp(berth_status_name(BERTH_OK), "BERTH_OK") == 0);
  CHECK(strcmp(berth_status_name(BERTH_INVALID_ARGUMENT), "BERTH_INVALID_ARGUMENT") == 0);
  CHECK(strcmp(berth_status_name(BERTH_OUT_OF_MEMORY), "BERTH_OUT_OF_MEMORY") == 0);
  CHECK(strcmp(berth_status_name(BERTH_NOT_SUPPORTED), "BERTH_NOT_SUPPORTED") == 0);
  CHECK(strcmp(berth_status_name(BERTH_STREAM_CAPTURED), "BERTH_STREAM_CAPTURED") == 0);
  CHECK(strcmp(berth_status_name(BERTH_CANCELLED), "BERTH_CANCELLED") == 0);
  CHECK(strcmp(berth_status_name(BERTH_FILE), "BERTH_FILE") == 0);
  CHECK(strcmp(berth_status_name(BERTH_DRIVER_ERROR), "BERTH_DRIVER_ERROR") == 0);
  CHECK(strcmp(berth_status_name(BERTH_INTERNAL_ERROR), "BERTH_INTERNAL_ERROR") == 0);
  CHECK(strcmp(berth_status_name((berth_status)99), "unknown berth_status") == 0);
}

static void driver_is_usable_and_named(void) {
  struct machine machine = open_machine(NULL);
  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_OK(berth_driver_get_info(machine.runtime, &info));
  CHECK(info.usable == 1);
  CHECK(info.version >= 11040);
  CHECK(strlen(info.name) > 0);
  CHECK(strcmp(info.problem, "") == 0);
  close_machine(&machine);
}

static void driver_functions_are_found_by_name(void) {
  struct machine machine = open_machine(NULL);
  void* function = NULL;
  CHECK_OK(berth_driver_get_function(machine.runtime, "cuDriverGetVersion", 2020, &function));
  CHECK(function != NULL);
  if (function != NULL) {
    int version = 0;
    int (*get_version)(int*) = NULL;
    memcpy(&get_version, &function, sizeof function);
    CHECK(get_version(&version) == 0);
    CHECK(version >= 11040);
  }
  CHECK_OK(berth_driver_get_function(machine.runtime, "cuDriverGetAge", 2020, &function));
  CHECK(function == NULL);
  close_machine(&machine);
}

static void option_bounds_the_pooled_streams(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.streams_max = 1;
  struct machine machine = open_machine(&options);
  berth_stream shared;
  CHECK_OK(berth_stream_acquire(machine.runtime, machine.device, 0, &shared));
  CHECK(shared.native == machine.stream.native);
  CHECK_OK(berth_stream_release(machine.runtime, shared));
  close_machine(&machine);
}

static void option_bounds_pinned_memory(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.pinned_segment_bytes = 1 << 16;
  options.pinned_bytes_reserved_max = 1 << 20;
  struct machine machine = open_machine(&options);
  void* data = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "",
              berth_allocator_allocate_pinned(machine.pinned, 2 << 20, &data));
  CHECK_OK(berth_allocator_allocate_pinned(machine.pinned, 1 << 19, &data));
  CHECK_OK(berth_allocator_deallocate(machine.pinned, data));
  close_machine(&machine);
}

static void option_bounds_host_memory(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.host_bytes_reserved_max = 1 << 20;
  struct machine machine = open_machine(&options);
  void* data = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "cpu",
              berth_allocator_allocate_host(machine.host, 2 << 20, &data));
  CHECK_OK(berth_allocator_allocate_host(machine.host, 1 << 20, &data));
  CHECK_OK(berth_allocator_deallocate(machine.host, data));
  close_machine(&machine);
}

static void check_refused(berth_runtime_options options, const char* part) {
  berth_runtime* runtime = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, part, berth_runtime_create(&options, &runtime));
  CHECK(runtime == NULL);
}

static void check_refused_for_devices(berth_runtime_options options, const char* part) {
  berth_runtime* runtime = NULL;
  berth_allocator* memory = NULL;
  CHECK_OK(berth_runtime_create(&options, &runtime));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, part,
              berth_allocator_get_device(runtime, berth_device_cuda(0), &memory));
  CHECK(memory == NULL);
  berth_runtime_destroy(runtime);
}

static void options_out_of_range_are_refused_by_the_part_that_they_are_for(void) {
  const berth_runtime_options defaults = BERTH_RUNTIME_OPTIONS_INIT;
  berth_runtime_options options = defaults;
  options.flags = BERTH_RUNTIME_NO_VIRTUAL_MEMORY | 0x100;
  check_refused(options, "0x100");
  options = defaults;
  options.pinned_segment_bytes = 1;
  check_refused(options, "PinnedAllocatorOptions::segment_bytes is 1;");
  options = defaults;
  options.staging_slot_bytes = 1;
  check_refused(options, "staging_slot_bytes is 1;");
  options = defaults;
  options.staging_slots = 1;
  check_refused(options, "staging_slots is 1;");
  options = defaults;
  options.device_granule_bytes = 1;
  check_refused_for_devices(options, "granule_bytes is 1;");
  options = defaults;
  options.device_granule_bytes = 3;
  check_refused(options, "granule_bytes is 3;");
  options = defaults;
  options.device_segment_bytes = 1;
  check_refused(options, "DeviceAllocatorOptions::segment_bytes is 1;");
}

static void configuration_goes_before_the_fields(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.streams_max = 2;
  options.device_bytes_reserved_max = 1;
  options.configuration = "streams_max=1, bytes_reserved_max=none";
  struct machine machine = open_machine(&options);
  berth_stream shared;
  CHECK_OK(berth_stream_acquire(machine.runtime, machine.device, 0, &shared));
  CHECK(shared.native == machine.stream.native);
  CHECK_OK(berth_stream_release(machine.runtime, shared));
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, 1000, machine.stream, &data));
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
}

static void malformed_configuration_is_refused(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.configuration = "streams_max=0,stagingslots=4";
  check_refused(options, "configuration: streams_max=\"0\" (accepted: 1 or more); unknown key ");
  check_refused(options, "perhaps staging_slots");
}

static void driver_can_be_named_in_the_options(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.driver = "/nonexistent/libcuda.so.1";
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(&options, &runtime));
  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_OK(berth_driver_get_info(runtime, &info));
  CHECK(info.usable == 0);
  CHECK(strcmp(info.name, options.driver) == 0);
  CHECK(strlen(info.problem) > 0);
  berth_runtime_destroy(runtime);
}

static void segments_come_whole_without_virtual_memory(void) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.flags = BERTH_RUNTIME_NO_VIRTUAL_MEMORY;
  options.device_segment_bytes = 4 << 20;
  struct machine machine = open_machine(&options);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, 1000, machine.stream, &data));
  berth_memory_gauges gauges = BERTH_MEMORY_GAUGES_INIT;
  berth_memory_totals totals = BERTH_MEMORY_TOTALS_INIT;
  CHECK_OK(berth_allocator_get_counters(machine.memory, &gauges, &totals));
  CHECK(gauges.bytes_reserved.current == 4 << 20);
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
}

struct reports {
  int count;
  char last[256];
};

static void keep_report(void* user, berth_severity severity, const char* message) {
  struct reports* const reports = user;
  CHECK(severity == BERTH_SEVERITY_WARNING || severity == BERTH_SEVERITY_ERROR);
  ++reports->count;
  snprintf(reports->last, sizeof reports->last, "%s", message);
}

static void leaked_block_is_reported_with_the_callers_own_pointer(void) {
  struct reports reports = {0, ""};
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.report = keep_report;
  options.report_user = &reports;
  struct machine machine = open_machine(&options);
  void* leaked = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, 1000, machine.stream, &leaked));
  CHECK(reports.count == 0);
  close_machine(&machine);
  CHECK(reports.count >= 1);
  CHECK(strlen(reports.last) > 0);
}

/// Memory that a framework could spare: one block, given up when it is asked for.
struct spare {
  berth_allocator* memory;
  void* data;
  size_t bytes_needed;
};

static bool give_up(void* user, size_t bytes_needed) {
  struct spare* const spare = user;
  if (spare->data == NULL) return false;
  void* elsewhere = NULL;
  // A failure in here must not replace that of the call which met the shortage.
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not the pinned allocator",
              berth_allocator_allocate_pinned(spare->memory, 1, &elsewhere));
  spare->bytes_needed = bytes_needed;
  CHECK_OK(berth_allocator_deallocate(spare->memory, spare->data));
  spare->data = NULL;
  return true;
}

static void memory_pressure_asks_the_caller_first(void) {
  enum { kBytes = 32 << 20 };
  struct spare spare = {0};
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.device_bytes_reserved_max = kBytes;
  options.on_pressure = give_up;
  options.on_pressure_user = &spare;
  struct machine machine = open_machine(&options);
  spare.memory = machine.memory;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &spare.data));

  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  CHECK(spare.data == NULL);
  CHECK(spare.bytes_needed > 0);
  void* more = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "",
              berth_allocator_allocate(machine.memory, kBytes, machine.stream, &more));
  CHECK(more == NULL);
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
}

static void a_runtime_gets_another_pressure_function(void) {
  enum { kBytes = 32 << 20 };
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.device_bytes_reserved_max = kBytes;
  struct machine machine = open_machine(&options);
  struct spare spare = {.memory = machine.memory};
  CHECK_OK(berth_allocator_set_on_pressure(machine.memory, give_up, &spare));
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &spare.data));

  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  CHECK(spare.data == NULL && spare.bytes_needed > 0);
  spare.bytes_needed = 0;
  CHECK_OK(berth_allocator_set_on_pressure(machine.memory, NULL, &spare));
  void* more = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "",
              berth_allocator_allocate(machine.memory, kBytes, machine.stream, &more));
  CHECK(more == NULL && spare.bytes_needed == 0);
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));

  berth_allocator* pinned = NULL;
  CHECK_OK(berth_allocator_get_pinned(machine.runtime, &pinned));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "is not that of a device",
              berth_allocator_set_on_pressure(pinned, give_up, &spare));
  close_machine(&machine);
}

struct mappings {
  size_t bytes_mapped;
  size_t bytes_unmapped;
  bool refuses;
};

static bool note_map(void* user, const berth_mapped_range* range) {
  struct mappings* const mappings = user;
  if (mappings->refuses) return false;
  CHECK(range->struct_size == sizeof(*range) && range->data != NULL);
  CHECK(range->device == 0 && range->is_alias == 0 && range->bytes % range->piece_bytes == 0);
  mappings->bytes_mapped += range->bytes;
  return true;
}

static void note_unmap(void* user, const berth_mapped_range* range) {
  ((struct mappings*)user)->bytes_unmapped += range->bytes;
}

static struct machine open_watched(struct mappings* mappings) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.on_map = note_map;
  options.on_unmap = note_unmap;
  options.mapping_user = mappings;
  return open_machine(&options);
}

static void each_mapping_is_announced_and_withdrawn(void) {
  enum { kBytes = 8 << 20 };
  struct mappings mappings = {0, 0, false};
  struct machine machine = open_watched(&mappings);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  CHECK(mappings.bytes_mapped == kBytes && mappings.bytes_unmapped == 0);
  mappings.refuses = true;
  void* more = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "on_map has refused 8.00 MiB",
              berth_allocator_allocate(machine.memory, kBytes, machine.stream, &more));
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
  CHECK(mappings.bytes_mapped == kBytes && mappings.bytes_unmapped == kBytes);
}

static void ended_callbacks_are_not_called(void) {
  enum { kBytes = 8 << 20 };
  struct mappings mappings = {0, 0, false};
  struct machine machine = open_watched(&mappings);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  CHECK_OK(berth_runtime_end_callbacks(machine.runtime));
  CHECK_OK(berth_runtime_end_callbacks(machine.runtime));
  void* more = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "on_map was ended, and accepts no 8.00 MiB of memory",
              berth_allocator_allocate(machine.memory, kBytes, machine.stream, &more));
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
  CHECK(mappings.bytes_mapped == kBytes && mappings.bytes_unmapped == 0);
}

void test_runtime(void) {
  version_is_the_projects();
  status_names_are_their_constants();
  driver_is_usable_and_named();
  driver_functions_are_found_by_name();
  option_bounds_the_pooled_streams();
  option_bounds_pinned_memory();
  option_bounds_host_memory();
  options_out_of_range_are_refused_by_the_part_that_they_are_for();
  configuration_goes_before_the_fields();
  malformed_configuration_is_refused();
  driver_can_be_named_in_the_options();
  segments_come_whole_without_virtual_memory();
  leaked_block_is_reported_with_the_callers_own_pointer();
  memory_pressure_asks_the_caller_first();
  a_runtime_gets_another_pressure_function();
  each_mapping_is_announced_and_withdrawn();
  ended_callbacks_are_not_called();
  berth_runtime_destroy(NULL);
  berth_string_free(NULL);
}
