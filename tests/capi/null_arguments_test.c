/* SPDX-License-Identifier: Apache-2.0 */
// Every function refuses null for each of its parameters, one after the other, by the parameter's
// name. check_functions.py sees to it that no function is left out.
#include "check.h"
#include "parts.h"

static const berth_stream kNoStream = {NULL, NULL};
static const berth_event kNoEvent = {NULL, NULL};

static void runtime_functions(berth_runtime* runtime) {
  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_REFUSED("message", berth_last_error_set(BERTH_FILE, NULL));
  CHECK_REFUSED("runtime", berth_runtime_create(NULL, NULL));
  CHECK_REFUSED("runtime", berth_runtime_end_callbacks(NULL));
  CHECK_REFUSED("runtime", berth_driver_get_info(NULL, &info));
  CHECK_REFUSED("info", berth_driver_get_info(runtime, NULL));
  CHECK(info.name == NULL);
  void* function = NULL;
  CHECK_REFUSED("runtime", berth_driver_get_function(NULL, "cuInit", 2000, &function));
  CHECK_REFUSED("name", berth_driver_get_function(runtime, NULL, 2000, &function));
  CHECK_REFUSED("function", berth_driver_get_function(runtime, "cuInit", 2000, NULL));
  CHECK(function == NULL);
}

static void stream_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_device cuda = machine->device;
  const berth_stream any = machine->stream;
  berth_stream stream = kNoStream;
  berth_stream_guard* guard = NULL;
  berth_device device;
  bool is_done = false;
  CHECK_REFUSED("runtime", berth_stream_acquire(NULL, cuda, 0, &stream));
  CHECK_REFUSED("stream", berth_stream_acquire(runtime, cuda, 0, NULL));
  CHECK_REFUSED("runtime", berth_stream_release(NULL, any));
  CHECK_REFUSED("stream", berth_stream_release(runtime, kNoStream));
  CHECK_REFUSED("runtime", berth_stream_create(NULL, cuda, 0, 0, &stream));
  CHECK_REFUSED("stream", berth_stream_create(runtime, cuda, 0, 0, NULL));
  CHECK_REFUSED("stream", berth_stream_destroy(kNoStream));
  CHECK_REFUSED("runtime", berth_stream_from_native(NULL, cuda, NULL, &stream));
  CHECK_REFUSED("stream", berth_stream_from_native(runtime, cuda, NULL, NULL));
  CHECK_REFUSED("runtime", berth_stream_get_per_thread_default(NULL, cuda, &stream));
  CHECK_REFUSED("stream", berth_stream_get_per_thread_default(runtime, cuda, NULL));
  CHECK_REFUSED("stream", berth_stream_is_capturing(kNoStream, &is_done));
  CHECK_REFUSED("is_capturing", berth_stream_is_capturing(any, NULL));
  CHECK_REFUSED("stream", berth_stream_get_device(kNoStream, &device));
  CHECK_REFUSED("device", berth_stream_get_device(any, NULL));
  CHECK_REFUSED("stream", berth_stream_is_done(kNoStream, &is_done));
  CHECK_REFUSED("is_done", berth_stream_is_done(any, NULL));
  CHECK_REFUSED("stream", berth_stream_sync(kNoStream));
  CHECK_REFUSED("stream", berth_stream_wait(kNoStream, kNoEvent));
  CHECK_REFUSED("event", berth_stream_wait(any, kNoEvent));
  CHECK_REFUSED("runtime", berth_stream_get_current(NULL, cuda, &stream));
  CHECK_REFUSED("stream", berth_stream_get_current(runtime, cuda, NULL));
  CHECK_REFUSED("stream", berth_stream_guard_enter(kNoStream, &guard));
  CHECK_REFUSED("guard", berth_stream_guard_enter(any, NULL));
  berth_relaxed_capture_scope* scope = NULL;
  CHECK_REFUSED("stream", berth_relaxed_capture_scope_enter(kNoStream, &scope));
  CHECK_REFUSED("scope", berth_relaxed_capture_scope_enter(any, NULL));
  CHECK(stream.context == NULL && guard == NULL && scope == NULL && !is_done);
}

static void never(void* user, berth_status status, const char* message) {
  (void)user;
  (void)status;
  (void)message;
  CHECK(false);
}

static void order_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_stream any = machine->stream;
  berth_stream side = kNoStream;
  berth_fork* fork = NULL;
  CHECK_REFUSED("runtime", berth_stream_join(NULL, any, &any, 1));
  CHECK_REFUSED("waiter", berth_stream_join(runtime, kNoStream, &any, 1));
  CHECK_REFUSED("streams", berth_stream_join(runtime, any, NULL, 1));
  CHECK_REFUSED("streams[0]", berth_stream_join(runtime, any, &kNoStream, 1));
  CHECK_REFUSED("runtime", berth_fork_begin(NULL, any, 1, 0, &side, &fork));
  CHECK_REFUSED("parent", berth_fork_begin(runtime, kNoStream, 1, 0, &side, &fork));
  CHECK_REFUSED("streams", berth_fork_begin(runtime, any, 1, 0, NULL, &fork));
  CHECK_REFUSED("fork", berth_fork_begin(runtime, any, 1, 0, &side, NULL));
  CHECK_REFUSED("fork", berth_fork_join(NULL));
  CHECK_REFUSED("runtime", berth_stream_when_done(NULL, any, &never, NULL));
  CHECK_REFUSED("stream", berth_stream_when_done(runtime, kNoStream, &never, NULL));
  CHECK_REFUSED("function", berth_stream_when_done(runtime, any, NULL, NULL));
  bool done = false;
  char byte = 0;
  char other = 0;
  CHECK_REFUSED("runtime", berth_transfer_start(NULL, &byte, &other, 1, any, NULL, NULL));
  CHECK_REFUSED("stream", berth_transfer_start(runtime, &byte, &other, 1, kNoStream, NULL, NULL));
  CHECK_REFUSED("runtime",
                berth_transfer_start_rows(NULL, &byte, 1, &other, 1, 1, 1, any, NULL, NULL));
  CHECK_REFUSED("stream", berth_transfer_start_rows(runtime, &byte, 1, &other, 1, 1, 1, kNoStream,
                                                    NULL, NULL));
  const berth_copy_range copy = {&byte, &other, 1};
  CHECK_REFUSED("runtime", berth_transfer_start_batch(NULL, &copy, 1, any, NULL, NULL));
  CHECK_REFUSED("copies", berth_transfer_start_batch(runtime, NULL, 1, any, NULL, NULL));
  CHECK_REFUSED("stream", berth_transfer_start_batch(runtime, &copy, 1, kNoStream, NULL, NULL));
  CHECK_REFUSED("runtime",
                berth_transfer_start_between(NULL, &byte, &other, 1, any, any, NULL, NULL));
  CHECK_REFUSED("target_stream", berth_transfer_start_between(runtime, &byte, &other, 1, kNoStream,
                                                              kNoStream, NULL, NULL));
  CHECK_REFUSED("target_stream",
                berth_copy_async_between(runtime, &byte, &other, 1, kNoStream, kNoStream));
  CHECK_REFUSED("runtime", berth_copy_async_between(NULL, &byte, &other, 1, any, any));
  CHECK_REFUSED("target_stream",
                berth_copy_sync_between(runtime, &byte, &other, 1, kNoStream, kNoStream));
  CHECK_REFUSED("runtime", berth_copy_sync_between(NULL, &byte, &other, 1, any, any));
  CHECK_REFUSED("target_stream",
                berth_transfer_start_rows_between(runtime, &byte, 1, &other, 1, 1, 1, kNoStream,
                                                  kNoStream, NULL, NULL));
  CHECK_REFUSED("runtime", berth_transfer_start_rows_between(NULL, &byte, 1, &other, 1, 1, 1, any,
                                                             any, NULL, NULL));
  CHECK_REFUSED("copies",
                berth_transfer_start_batch_between(runtime, NULL, 1, any, any, NULL, NULL));
  CHECK_REFUSED("target_stream", berth_transfer_start_batch_between(runtime, &copy, 1, kNoStream,
                                                                    kNoStream, NULL, NULL));
  CHECK_REFUSED("transfer", berth_transfer_is_done(NULL, &done));
  CHECK_REFUSED("transfer", berth_transfer_wait(NULL));
  CHECK_REFUSED("transfer", berth_transfer_finish(NULL));
  CHECK_REFUSED("transfer", berth_transfer_progress(NULL, NULL, NULL));
  berth_file* file = NULL;
  uint64_t size = 0;
  CHECK_REFUSED("path", berth_file_open_to_read(NULL, BERTH_FILE_CACHED, &file));
  CHECK_REFUSED("file", berth_file_open_to_read("/dev/null", BERTH_FILE_CACHED, NULL));
  CHECK_REFUSED("path", berth_file_open_to_write(NULL, BERTH_FILE_CACHED, &file));
  CHECK_REFUSED("file", berth_file_open_to_write("/dev/null", BERTH_FILE_CACHED, NULL));
  CHECK_REFUSED("file", berth_file_get_size(NULL, &size));
  CHECK_REFUSED("file", berth_file_read(NULL, &byte, 1, 0));
  CHECK_REFUSED("file", berth_file_write(NULL, &byte, 1, 0));
  CHECK_REFUSED("file", berth_file_sync(NULL));
  CHECK_OK(berth_file_open_to_write("/dev/null", BERTH_FILE_CACHED, &file));
  CHECK_REFUSED("bytes", berth_file_get_size(file, NULL));
  CHECK_REFUSED("source", berth_file_write(file, NULL, 1, 0));
  CHECK_REFUSED("runtime", berth_transfer_start_to_file(NULL, file, 0, &byte, 1, any, NULL, NULL));
  CHECK_REFUSED("target",
                berth_transfer_start_to_file(runtime, NULL, 0, &byte, 1, any, NULL, NULL));
  CHECK_REFUSED("stream",
                berth_transfer_start_to_file(runtime, file, 0, &byte, 1, kNoStream, NULL, NULL));
  berth_file_close(file);
  CHECK_OK(berth_file_open_to_read("/proc/self/exe", BERTH_FILE_CACHED, &file));
  CHECK_REFUSED("target", berth_file_read(file, NULL, 1, 0));
  CHECK_REFUSED("runtime",
                berth_transfer_start_from_file(NULL, &byte, file, 0, 1, any, NULL, NULL));
  CHECK_REFUSED("source",
                berth_transfer_start_from_file(runtime, &byte, NULL, 0, 1, any, NULL, NULL));
  CHECK_REFUSED("stream",
                berth_transfer_start_from_file(runtime, &byte, file, 0, 1, kNoStream, NULL, NULL));
  berth_file_close(file);
  berth_file_close(NULL);
  berth_transfer_cancel(NULL);
  berth_transfer_release(NULL);
  berth_fork_end(NULL);
  berth_relaxed_capture_scope_leave(NULL);
  CHECK(side.context == NULL && fork == NULL);
}

static void collective_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_stream any = machine->stream;
  char byte = 0;
  char other = 0;
  const berth_shard shard = {&other, 1, any};
  const berth_shard streamless = {&other, 1, kNoStream};
  const berth_shard nowhere = {NULL, 1, any};
  CHECK_REFUSED("runtime", berth_scatter_start(NULL, &byte, 1, any, &shard, 1, NULL, NULL));
  CHECK_REFUSED("stream", berth_scatter_start(runtime, &byte, 1, kNoStream, &shard, 1, NULL, NULL));
  CHECK_REFUSED("shards", berth_scatter_start(runtime, &byte, 1, any, NULL, 1, NULL, NULL));
  CHECK_REFUSED("shards[0].stream",
                berth_scatter_start(runtime, &byte, 1, any, &streamless, 1, NULL, NULL));
  CHECK_REFUSED("runtime", berth_gather_start(NULL, &byte, 1, any, &shard, 1, NULL, NULL));
  CHECK_REFUSED("stream", berth_gather_start(runtime, &byte, 1, kNoStream, &shard, 1, NULL, NULL));
  CHECK_REFUSED("shards", berth_gather_start(runtime, &byte, 1, any, NULL, 1, NULL, NULL));
  CHECK_REFUSED("shards[0].stream",
                berth_gather_start(runtime, &byte, 1, any, &streamless, 1, NULL, NULL));
  CHECK_REFUSED("runtime", berth_broadcast_start(NULL, &byte, 1, any, &shard, 1, NULL, NULL));
  CHECK_REFUSED("stream",
                berth_broadcast_start(runtime, &byte, 1, kNoStream, &shard, 1, NULL, NULL));
  CHECK_REFUSED("shards", berth_broadcast_start(runtime, &byte, 1, any, NULL, 1, NULL, NULL));
  CHECK_REFUSED("shards[0].stream",
                berth_broadcast_start(runtime, &byte, 1, any, &streamless, 1, NULL, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not null",
              berth_broadcast_start(runtime, NULL, 1, any, &shard, 1, NULL, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not null",
              berth_broadcast_start(runtime, &byte, 1, any, &nowhere, 1, NULL, NULL));
}

static void event_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_device cuda = machine->device;
  berth_event any;
  CHECK_OK(berth_event_acquire(runtime, cuda, 0, &any));
  berth_event event = kNoEvent;
  berth_device device;
  bool is_done = false;
  float elapsed_ms = -1;
  CHECK_REFUSED("runtime", berth_event_acquire(NULL, cuda, 0, &event));
  CHECK_REFUSED("event", berth_event_acquire(runtime, cuda, 0, NULL));
  CHECK_REFUSED("runtime", berth_event_acquire_recorded(NULL, machine->stream, &event));
  CHECK_REFUSED("stream", berth_event_acquire_recorded(runtime, kNoStream, &event));
  CHECK_REFUSED("event", berth_event_acquire_recorded(runtime, machine->stream, NULL));
  CHECK_REFUSED("runtime", berth_event_release(NULL, any));
  CHECK_REFUSED("event", berth_event_release(runtime, kNoEvent));
  CHECK_REFUSED("runtime", berth_event_create(NULL, cuda, 0, &event));
  CHECK_REFUSED("event", berth_event_create(runtime, cuda, 0, NULL));
  CHECK_REFUSED("event", berth_event_destroy(kNoEvent));
  CHECK_REFUSED("runtime", berth_event_from_native(NULL, cuda, any.native, &event));
  CHECK_REFUSED("native", berth_event_from_native(runtime, cuda, NULL, &event));
  CHECK_REFUSED("event", berth_event_from_native(runtime, cuda, any.native, NULL));
  berth_ipc_event_handle handle = {{0}};
  CHECK_REFUSED("event", berth_event_get_ipc_handle(kNoEvent, &handle));
  CHECK_REFUSED("handle", berth_event_get_ipc_handle(any, NULL));
  CHECK_REFUSED("runtime", berth_event_open(NULL, cuda, &handle, &event));
  CHECK_REFUSED("handle", berth_event_open(runtime, cuda, NULL, &event));
  CHECK_REFUSED("event", berth_event_open(runtime, cuda, &handle, NULL));
  CHECK_REFUSED("event", berth_event_get_device(kNoEvent, &device));
  CHECK_REFUSED("device", berth_event_get_device(any, NULL));
  CHECK_REFUSED("event", berth_event_record(kNoEvent, machine->stream));
  CHECK_REFUSED("stream", berth_event_record(any, kNoStream));
  CHECK_REFUSED("event", berth_event_is_done(kNoEvent, &is_done));
  CHECK_REFUSED("is_done", berth_event_is_done(any, NULL));
  CHECK_REFUSED("event", berth_event_sync(kNoEvent));
  CHECK_REFUSED("start", berth_event_elapsed_ms(kNoEvent, any, &elapsed_ms));
  CHECK_REFUSED("end", berth_event_elapsed_ms(any, kNoEvent, &elapsed_ms));
  CHECK_REFUSED("elapsed_ms", berth_event_elapsed_ms(any, any, NULL));
  CHECK(event.native == NULL && elapsed_ms == -1 && !is_done);
  CHECK_OK(berth_event_release(runtime, any));
}

static void graph_functions(const struct machine* machine) {
  berth_graph_capture* capture = NULL;
  berth_graph* graph = NULL;
  berth_device device;
  struct CUgraphExec_st* native = NULL;
  CHECK_REFUSED("stream", berth_graph_capture_begin(kNoStream, &capture));
  CHECK_REFUSED("capture", berth_graph_capture_begin(machine->stream, NULL));
  CHECK_REFUSED("capture", berth_graph_capture_end(NULL, &graph));
  CHECK_OK(berth_graph_capture_begin(machine->stream, &capture));
  CHECK_REFUSED("graph", berth_graph_capture_end(capture, NULL));
  CHECK_OK(berth_graph_capture_end(capture, &graph));
  berth_graph_capture_release(capture);
  CHECK_REFUSED("graph", berth_graph_replay(NULL, machine->stream));
  CHECK_REFUSED("stream", berth_graph_replay(graph, kNoStream));
  CHECK_REFUSED("graph", berth_graph_get_device(NULL, &device));
  CHECK_REFUSED("device", berth_graph_get_device(graph, NULL));
  CHECK_REFUSED("graph", berth_graph_get_native(NULL, &native));
  CHECK_REFUSED("native", berth_graph_get_native(graph, NULL));
  berth_graph_destroy(graph);
}

static void allocator_functions(const struct machine* machine) {
  berth_allocator* const memory = machine->memory;
  berth_allocator* const pinned = machine->pinned;
  berth_allocator* allocator = NULL;
  berth_memory_gauges gauges = BERTH_MEMORY_GAUGES_INIT;
  berth_memory_totals totals = BERTH_MEMORY_TOTALS_INIT;
  void* data = NULL;
  size_t bytes = 0;
  bool owns = false;
  CHECK_REFUSED("runtime", berth_allocator_get_device(NULL, machine->device, &allocator));
  CHECK_REFUSED("allocator", berth_allocator_get_device(machine->runtime, machine->device, NULL));
  CHECK_REFUSED("runtime", berth_allocator_get_pinned(NULL, &allocator));
  CHECK_REFUSED("allocator", berth_allocator_get_pinned(machine->runtime, NULL));
  CHECK_REFUSED("runtime", berth_allocator_get_host(NULL, &allocator));
  CHECK_REFUSED("allocator", berth_allocator_get_host(machine->runtime, NULL));
  CHECK_REFUSED("allocator", berth_allocator_allocate(NULL, 1, machine->stream, &data));
  CHECK_REFUSED("stream", berth_allocator_allocate(memory, 1, kNoStream, &data));
  CHECK_REFUSED("data", berth_allocator_allocate(memory, 1, machine->stream, NULL));
  CHECK_REFUSED("allocator", berth_allocator_allocate_pinned(NULL, 1, &data));
  CHECK_REFUSED("data", berth_allocator_allocate_pinned(pinned, 1, NULL));
  CHECK_REFUSED("allocator", berth_allocator_register_pinned(NULL, &data, 1));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "null", berth_allocator_register_pinned(pinned, NULL, 1));
  CHECK_REFUSED("allocator", berth_allocator_unregister_pinned(NULL, &data));
  CHECK_REFUSED("allocator", berth_allocator_allocate_host(NULL, 1, &data));
  CHECK_REFUSED("data", berth_allocator_allocate_host(machine->host, 1, NULL));
  CHECK_REFUSED("allocator", berth_allocator_deallocate(NULL, NULL));
  CHECK_REFUSED("allocator", berth_allocator_record_stream(NULL, &data, machine->stream));
  CHECK_OK(berth_allocator_record_stream(memory, NULL, machine->stream));
  CHECK_REFUSED("stream", berth_allocator_record_stream(memory, &data, kNoStream));
  CHECK_REFUSED("allocator", berth_allocator_record_use(NULL, &data, machine->stream));
  CHECK_OK(berth_allocator_record_use(memory, NULL, machine->stream));
  CHECK_REFUSED("stream", berth_allocator_record_use(memory, &data, kNoStream));
  CHECK_REFUSED("allocator", berth_allocator_keep_for_graph(NULL, &data, machine->stream));
  CHECK_REFUSED("data", berth_allocator_keep_for_graph(machine->pinned, NULL, machine->stream));
  CHECK_REFUSED("stream", berth_allocator_keep_for_graph(machine->pinned, &data, kNoStream));
  CHECK_REFUSED("allocator", berth_allocator_trim(NULL, 0, &bytes));
  CHECK_REFUSED("bytes_released", berth_allocator_trim(memory, 0, NULL));
  CHECK_REFUSED("allocator", berth_allocator_release_unused(NULL, 0, &bytes));
  CHECK_REFUSED("bytes_released", berth_allocator_release_unused(memory, 0, NULL));
  CHECK_REFUSED("allocator", berth_allocator_retire_stream(NULL, machine->stream));
  CHECK_REFUSED("stream", berth_allocator_retire_stream(memory, kNoStream));
  CHECK_REFUSED("allocator", berth_allocator_set_limits(NULL, 1, BERTH_NO_LIMIT));
  CHECK_REFUSED("allocator", berth_allocator_set_on_pressure(NULL, NULL, NULL));
  CHECK_REFUSED("allocator", berth_allocator_owns(NULL, &data, &owns));
  CHECK_REFUSED("owns", berth_allocator_owns(memory, &data, NULL));
  CHECK_REFUSED("allocator", berth_allocator_find_pinned(NULL, &data, &data));
  CHECK_REFUSED("block", berth_allocator_find_pinned(pinned, &data, NULL));
  CHECK_REFUSED("allocator", berth_allocator_get_counters(NULL, &gauges, &totals));
  CHECK_REFUSED("gauges", berth_allocator_get_counters(memory, NULL, &totals));
  CHECK_REFUSED("totals", berth_allocator_get_counters(memory, &gauges, NULL));
  CHECK_REFUSED("allocator", berth_allocator_reset_peaks(NULL));
  CHECK_REFUSED("allocator", berth_allocator_validate(NULL));
  CHECK(allocator == NULL && data == NULL && bytes == 0 && !owns);
}

static void copy_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_stream any = machine->stream;
  berth_copy_counters counters = BERTH_COPY_COUNTERS_INIT;
  char target[8] = {0};
  const char source[8] = {0};
  CHECK_REFUSED("runtime", berth_copy_async(NULL, target, source, 8, any));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target", berth_copy_async(runtime, NULL, source, 8, any));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "source", berth_copy_async(runtime, target, NULL, 8, any));
  CHECK_REFUSED("stream", berth_copy_async(runtime, target, source, 8, kNoStream));
  CHECK_REFUSED("runtime", berth_copy_sync(NULL, target, source, 8, any));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target", berth_copy_sync(runtime, NULL, source, 8, any));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "source", berth_copy_sync(runtime, target, NULL, 8, any));
  CHECK_REFUSED("stream", berth_copy_sync(runtime, target, source, 8, kNoStream));
  CHECK_REFUSED("runtime", berth_copy_host(NULL, target, source, 8));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target", berth_copy_host(runtime, NULL, source, 8));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "source", berth_copy_host(runtime, target, NULL, 8));
  CHECK_REFUSED("runtime", berth_fill_async(NULL, target, 0, 8, any));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target", berth_fill_async(runtime, NULL, 0, 8, any));
  CHECK_REFUSED("stream", berth_fill_async(runtime, target, 0, 8, kNoStream));
  CHECK_REFUSED("runtime", berth_copy_get_counters(NULL, &counters));
  CHECK_REFUSED("counters", berth_copy_get_counters(runtime, NULL));
}

static void statistics_functions(berth_runtime* runtime) {
  char* text = NULL;
  CHECK_REFUSED("runtime", berth_statistics_to_text(NULL, &text));
  CHECK_REFUSED("text", berth_statistics_to_text(runtime, NULL));
  CHECK_REFUSED("runtime", berth_statistics_to_json(NULL, &text));
  CHECK_REFUSED("json", berth_statistics_to_json(runtime, NULL));
  CHECK(text == NULL);
}

void test_null_arguments(void) {
  struct machine machine = open_machine(NULL);
  runtime_functions(machine.runtime);
  stream_functions(&machine);
  order_functions(&machine);
  collective_functions(&machine);
  event_functions(&machine);
  graph_functions(&machine);
  allocator_functions(&machine);
  copy_functions(&machine);
  statistics_functions(machine.runtime);
  close_machine(&machine);
}
