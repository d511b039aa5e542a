/* SPDX-License-Identifier: Apache-2.0 */
// Null for each parameter, as in null_arguments_test.c: pools, snapshots, handles, and what asks
// about memory and options.
#include "check.h"
#include "parts.h"

static const berth_stream kNoStream = {NULL, NULL};

static void pool_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_device cuda = machine->device;
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  berth_memory_pool* pool = NULL;
  berth_memory_pool_scope* scope = NULL;
  berth_allocator* allocator = NULL;
  const char* name = NULL;
  berth_pool_checkpoint* checkpoint = NULL;
  bool is_asleep = false;
  size_t bytes = 0;
  CHECK_REFUSED("runtime", berth_memory_pool_create(NULL, cuda, &options, &pool));
  CHECK_REFUSED("options", berth_memory_pool_create(runtime, cuda, NULL, &pool));
  CHECK_REFUSED("options.name", berth_memory_pool_create(runtime, cuda, &options, &pool));
  CHECK_REFUSED("pool", berth_memory_pool_create(runtime, cuda, &options, NULL));
  CHECK_REFUSED("pool", berth_memory_pool_get_allocator(NULL, &allocator));
  CHECK_REFUSED("pool", berth_memory_pool_get_name(NULL, &name));
  CHECK_REFUSED("pool", berth_memory_pool_sleep(NULL, false, &bytes));
  CHECK_REFUSED("pool", berth_memory_pool_wake(NULL));
  CHECK_REFUSED("pool", berth_memory_pool_checkpoint(NULL, &checkpoint));
  CHECK_REFUSED("pool", berth_memory_pool_restore(NULL, NULL, NULL, NULL));
  berth_pool_checkpoint_destroy(NULL);
  CHECK_REFUSED("pool", berth_memory_pool_is_asleep(NULL, &is_asleep));
  CHECK_REFUSED("pool", berth_memory_pool_scope_enter(NULL, &scope));
  CHECK_REFUSED("pool", berth_memory_pool_scope_enter_stream(NULL, machine->stream, &scope));
  CHECK_REFUSED("runtime", berth_memory_pools_sleep(NULL, cuda, "name", false, &bytes));
  CHECK_REFUSED("name", berth_memory_pools_sleep(runtime, cuda, NULL, false, &bytes));
  CHECK_REFUSED("bytes_released", berth_memory_pools_sleep(runtime, cuda, "name", false, NULL));
  CHECK_REFUSED("runtime", berth_memory_pools_wake(NULL, cuda, "name"));
  CHECK_REFUSED("name", berth_memory_pools_wake(runtime, cuda, NULL));
  CHECK(pool == NULL && allocator == NULL && name == NULL && bytes == 0 && scope == NULL);

  options.name = "name";
  CHECK_OK(berth_memory_pool_create(runtime, cuda, &options, &pool));
  CHECK_REFUSED("allocator", berth_memory_pool_get_allocator(pool, NULL));
  CHECK_REFUSED("name", berth_memory_pool_get_name(pool, NULL));
  CHECK_REFUSED("bytes_released", berth_memory_pool_sleep(pool, false, NULL));
  CHECK_REFUSED("is_asleep", berth_memory_pool_is_asleep(pool, NULL));
  CHECK_REFUSED("checkpoint", berth_memory_pool_checkpoint(pool, NULL));
  CHECK_REFUSED("checkpoint", berth_memory_pool_restore(pool, NULL, NULL, NULL));
  CHECK_REFUSED("scope", berth_memory_pool_scope_enter(pool, NULL));
  CHECK_REFUSED("stream", berth_memory_pool_scope_enter_stream(pool, kNoStream, &scope));
  CHECK_REFUSED("scope", berth_memory_pool_scope_enter_stream(pool, machine->stream, NULL));
  berth_memory_pool_close(pool);
}

static void snapshot_functions(const struct machine* machine) {
  berth_memory_snapshot* snapshot = NULL;
  berth_memory_snapshot_info info = BERTH_MEMORY_SNAPSHOT_INFO_INIT;
  berth_memory_gauges gauges = BERTH_MEMORY_GAUGES_INIT;
  berth_memory_totals totals = BERTH_MEMORY_TOTALS_INIT;
  berth_segment_info segment = BERTH_SEGMENT_INFO_INIT;
  berth_block_info block = BERTH_BLOCK_INFO_INIT;
  char* lines = NULL;
  size_t count = 0;
  CHECK_REFUSED("allocator", berth_memory_snapshot_take(NULL, &snapshot));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_take(machine->memory, NULL));
  CHECK_REFUSED("runtime",
                berth_memory_snapshot_take_pools(NULL, machine->device, &snapshot, 1, &count));
  CHECK_REFUSED("snapshots", berth_memory_snapshot_take_pools(machine->runtime, machine->device,
                                                              NULL, 1, &count));
  CHECK_REFUSED("count", berth_memory_snapshot_take_pools(machine->runtime, machine->device,
                                                          &snapshot, 1, NULL));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_get_info(NULL, &info));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_get_counters(NULL, &gauges, &totals));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_get_segment(NULL, 0, &segment));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_get_block(NULL, 0, 0, &block));
  CHECK_REFUSED("snapshot", berth_memory_snapshot_find_discrepancies(NULL, &lines));
  CHECK(snapshot == NULL && lines == NULL && count == 0);

  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, 1, machine->stream, &data));
  CHECK_OK(berth_memory_snapshot_take(machine->memory, &snapshot));
  CHECK_REFUSED("info", berth_memory_snapshot_get_info(snapshot, NULL));
  CHECK_REFUSED("gauges", berth_memory_snapshot_get_counters(snapshot, NULL, &totals));
  CHECK_REFUSED("totals", berth_memory_snapshot_get_counters(snapshot, &gauges, NULL));
  CHECK_REFUSED("info", berth_memory_snapshot_get_segment(snapshot, 0, NULL));
  CHECK_REFUSED("info", berth_memory_snapshot_get_block(snapshot, 0, 0, NULL));
  CHECK_REFUSED("lines", berth_memory_snapshot_find_discrepancies(snapshot, NULL));
  berth_memory_snapshot_release(snapshot);
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void memory_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  berth_allocator* const pinned = machine->pinned;
  const berth_pinned_options options = BERTH_PINNED_OPTIONS_INIT;
  berth_memory_block block = BERTH_MEMORY_BLOCK_INIT;
  berth_pinned_range range = BERTH_PINNED_RANGE_INIT;
  berth_pinned_counters counters = BERTH_PINNED_COUNTERS_INIT;
  berth_device device;
  void* data = NULL;
  bool is_for_graphs = false;
  size_t bytes = 0;
  CHECK_REFUSED("runtime", berth_memory_find(NULL, &data, &block));
  CHECK_REFUSED("block", berth_memory_find(runtime, &data, NULL));
  CHECK_REFUSED("allocator", berth_allocator_get_location(NULL, &device));
  CHECK_REFUSED("device", berth_allocator_get_location(pinned, NULL));
  CHECK_REFUSED("allocator", berth_allocator_is_for_graphs(NULL, &data, &is_for_graphs));
  CHECK_REFUSED("is_for_graphs", berth_allocator_is_for_graphs(machine->memory, &data, NULL));
  CHECK_REFUSED("allocator", berth_allocator_allocate_pinned_with(NULL, 1, &options, &data));
  CHECK_REFUSED("options", berth_allocator_allocate_pinned_with(pinned, 1, NULL, &data));
  CHECK_REFUSED("data", berth_allocator_allocate_pinned_with(pinned, 1, &options, NULL));
  CHECK_REFUSED("allocator", berth_allocator_get_pinned_range(NULL, &data, &range));
  CHECK_REFUSED("range", berth_allocator_get_pinned_range(pinned, &data, NULL));
  CHECK_REFUSED("allocator", berth_allocator_get_pinned_counters(NULL, &counters));
  CHECK_REFUSED("counters", berth_allocator_get_pinned_counters(pinned, NULL));
  CHECK_REFUSED("allocator", berth_allocator_finish_background_work(NULL));
  CHECK_REFUSED("runtime", berth_device_get_bytes_of_part(NULL, machine->device, 0.5, &bytes));
  CHECK_REFUSED("bytes", berth_device_get_bytes_of_part(runtime, machine->device, 0.5, NULL));
  CHECK(data == NULL && !is_for_graphs && bytes == 0);
}

static void other_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_device cuda = machine->device;
  char* text = NULL;
  char* other = NULL;
  const char* kept = NULL;
  size_t count = 0;
  CHECK_REFUSED("runtime", berth_runtime_get_configuration(NULL, &text));
  CHECK_REFUSED("configuration", berth_runtime_get_configuration(runtime, NULL));
  CHECK_REFUSED("text", berth_configuration_from_pytorch(NULL, &text, &other));
  CHECK_REFUSED("configuration", berth_configuration_from_pytorch("", NULL, &other));
  CHECK_REFUSED("remarks", berth_configuration_from_pytorch("", &text, NULL));
  CHECK_REFUSED("runtime", berth_visible_devices_get(NULL, &kept));
  CHECK_REFUSED("text", berth_visible_devices_get(runtime, NULL));
  CHECK_REFUSED("runtime", berth_stream_pool_get_counts(NULL, cuda, &count, &count));
  CHECK_REFUSED("runtime", berth_event_pool_get_counts(NULL, cuda, &count, &count));
  CHECK_REFUSED("runtime", berth_completions_get_outstanding(NULL, &count));
  CHECK_REFUSED("count", berth_completions_get_outstanding(runtime, NULL));
  CHECK_REFUSED("transfer", berth_transfer_check(NULL));
  CHECK_REFUSED("transfer", berth_transfer_get_bytes(NULL, &count));
  const berth_device_map_entry entry = {{0, 0}, {0, 0}};
  berth_device_map* map = NULL;
  CHECK_REFUSED("entries", berth_device_map_create_table(NULL, 1, &map));
  CHECK_REFUSED("map", berth_device_map_create_table(&entry, 1, NULL));
  CHECK_REFUSED("map", berth_device_map_create_all(cuda, NULL));
  CHECK(text == NULL && other == NULL && kept == NULL && count == 0 && map == NULL);
}

static int create(void* user, void** handle) {
  *handle = user;
  return 0;
}

static int bind(void* user, void* handle, berth_stream stream) {
  (void)stream;
  return user == handle ? 0 : 1;
}

static void handle_functions(const struct machine* machine) {
  berth_handle_pool_options options = BERTH_HANDLE_POOL_OPTIONS_INIT;
  options.name = "library";
  options.create = &create;
  options.bind = &bind;
  berth_handle_counters counters = BERTH_HANDLE_COUNTERS_INIT;
  berth_handle_pool* pool = NULL;
  berth_handle_lease* lease = NULL;
  void* handle = NULL;
  size_t destroyed = 0;
  CHECK_REFUSED("runtime", berth_handle_pool_create(NULL, &options, &pool));
  CHECK_REFUSED("options", berth_handle_pool_create(machine->runtime, NULL, &pool));
  CHECK_REFUSED("pool", berth_handle_pool_create(machine->runtime, &options, NULL));
  CHECK_REFUSED("pool", berth_handle_pool_acquire(NULL, machine->stream, &lease, &handle));
  CHECK_REFUSED("pool", berth_handle_pool_trim(NULL, &destroyed));
  CHECK_REFUSED("pool", berth_handle_pool_retire_stream(NULL, machine->stream));
  CHECK_REFUSED("pool", berth_handle_pool_get_counters(NULL, &counters));
  CHECK_OK(berth_handle_pool_create(machine->runtime, &options, &pool));
  CHECK_REFUSED("stream", berth_handle_pool_acquire(pool, kNoStream, &lease, &handle));
  CHECK_REFUSED("lease", berth_handle_pool_acquire(pool, machine->stream, NULL, &handle));
  CHECK_REFUSED("handle", berth_handle_pool_acquire(pool, machine->stream, &lease, NULL));
  CHECK_REFUSED("destroyed", berth_handle_pool_trim(pool, NULL));
  CHECK_REFUSED("stream", berth_handle_pool_retire_stream(pool, kNoStream));
  CHECK_REFUSED("counters", berth_handle_pool_get_counters(pool, NULL));
  berth_handle_pool_destroy(pool);
  CHECK(lease == NULL && handle == NULL && destroyed == 0);
}

void test_null_memory_arguments(void) {
  struct machine machine = open_machine(NULL);
  pool_functions(&machine);
  snapshot_functions(&machine);
  memory_functions(&machine);
  other_functions(&machine);
  handle_functions(&machine);
  close_machine(&machine);
}
