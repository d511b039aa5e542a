/* SPDX-License-Identifier: Apache-2.0 */
// Null for each parameter, as in null_arguments_test.c: what is about backends and their buffers.
#include "check.h"
#include "parts.h"

static void backend_functions(berth_runtime* runtime) {
  const berth_device cpu = berth_device_cpu();
  berth_backend_memory memory = BERTH_BACKEND_MEMORY_INIT;
  char* text = NULL;
  int count = 0;
  CHECK_REFUSED("runtime", berth_pjrt_register(NULL, "tpu", "x.so", NULL, 0));
  CHECK_REFUSED("type", berth_pjrt_register(runtime, NULL, "x.so", NULL, 0));
  CHECK_REFUSED("path", berth_pjrt_register(runtime, "tpu", NULL, NULL, 0));
  CHECK_REFUSED("options", berth_pjrt_register(runtime, "tpu", "x.so", NULL, 1));
  CHECK_REFUSED("runtime", berth_pjrt_register_topology(NULL, "tpu", "x.so", "2x2", NULL, 0));
  CHECK_REFUSED("type", berth_pjrt_register_topology(runtime, NULL, "x.so", "2x2", NULL, 0));
  CHECK_REFUSED("path", berth_pjrt_register_topology(runtime, "tpu", NULL, "2x2", NULL, 0));
  CHECK_REFUSED("topology", berth_pjrt_register_topology(runtime, "tpu", "x.so", NULL, NULL, 0));
  CHECK_REFUSED("options", berth_pjrt_register_topology(runtime, "tpu", "x.so", "2x2", NULL, 1));
  const berth_backend_functions functions = BERTH_BACKEND_FUNCTIONS_INIT;
  CHECK_REFUSED("runtime", berth_backend_register(NULL, "tpu", &functions));
  CHECK_REFUSED("type", berth_backend_register(runtime, NULL, &functions));
  CHECK_REFUSED("functions", berth_backend_register(runtime, "tpu", NULL));
  CHECK_REFUSED("functions.name", berth_backend_register(runtime, "tpu", &functions));
  CHECK_REFUSED("runtime", berth_device_type_get_device_count(NULL, 0, &count));
  CHECK_REFUSED("count", berth_device_type_get_device_count(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_device_type_get_backend(NULL, 0, &text));
  CHECK_REFUSED("name", berth_device_type_get_backend(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_device_type_get_attributes(NULL, 0, &text));
  CHECK_REFUSED("json", berth_device_type_get_attributes(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_device_type_get_problem(NULL, 0, &text));
  CHECK_REFUSED("problem", berth_device_type_get_problem(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_device_type_explain(NULL, 0, &text));
  CHECK_REFUSED("json", berth_device_type_explain(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_device_describe(NULL, cpu, &text));
  CHECK_REFUSED("json", berth_device_describe(runtime, cpu, NULL));
  CHECK_REFUSED("runtime", berth_device_get_backend_memory(NULL, cpu, &memory));
  CHECK_REFUSED("memory", berth_device_get_backend_memory(runtime, cpu, NULL));
}

static void buffer_functions(const struct machine* machine) {
  berth_runtime* const runtime = machine->runtime;
  const berth_device cpu = berth_device_cpu();
  berth_buffer_counters counters = BERTH_BUFFER_COUNTERS_INIT;
  berth_buffer* buffer = NULL;
  berth_transfer* transfer = NULL;
  berth_device device;
  size_t bytes = 0;
  char data = 0;
  CHECK_REFUSED("runtime", berth_buffer_create(NULL, cpu, &data, 1, NULL, &buffer));
  CHECK_REFUSED("buffer", berth_buffer_create(runtime, cpu, &data, 1, NULL, NULL));
  CHECK_REFUSED("runtime", berth_buffer_create_from_file(NULL, cpu, NULL, 0, 1, NULL, &buffer));
  CHECK_REFUSED("buffer", berth_buffer_create_from_file(runtime, cpu, NULL, 0, 1, NULL, NULL));
  CHECK_REFUSED("source", berth_buffer_create_from_file(runtime, cpu, NULL, 0, 1, NULL, &buffer));
  CHECK_REFUSED("runtime", berth_buffer_create_copy(NULL, cpu, NULL, NULL, &buffer));
  CHECK_REFUSED("buffer", berth_buffer_create_copy(runtime, cpu, NULL, NULL, NULL));
  CHECK_REFUSED("source", berth_buffer_create_copy(runtime, cpu, NULL, NULL, &buffer));
  const berth_stream none = {NULL, NULL};
  CHECK_REFUSED("runtime",
                berth_buffer_create_on_stream(NULL, cpu, &data, 1, machine->stream, NULL, &buffer));
  CHECK_REFUSED("buffer",
                berth_buffer_create_on_stream(runtime, cpu, &data, 1, machine->stream, NULL, NULL));
  CHECK_REFUSED("stream",
                berth_buffer_create_on_stream(runtime, cpu, &data, 1, none, NULL, &buffer));
  berth_host_mapping* mapping = NULL;
  CHECK_REFUSED("runtime", berth_host_mapping_create(NULL, cpu, &data, 1, &mapping));
  CHECK_REFUSED("mapping", berth_host_mapping_create(runtime, cpu, &data, 1, NULL));
  CHECK_REFUSED("buffer", berth_buffer_get_device(NULL, &device));
  CHECK_REFUSED("buffer", berth_buffer_get_bytes(NULL, &bytes));
  CHECK_REFUSED("buffer", berth_buffer_get_transfer(NULL, &transfer));
  CHECK_REFUSED("buffer", berth_buffer_read(NULL, &data, 0, 1, NULL, &transfer));
  CHECK_REFUSED("buffer", berth_buffer_read_to_file(NULL, NULL, 0, 0, 1, NULL, &transfer));
  CHECK_REFUSED("runtime",
                berth_buffer_copy(NULL, &data, NULL, 0, 1, machine->stream, NULL, &transfer));
  CHECK_REFUSED("source",
                berth_buffer_copy(runtime, &data, NULL, 0, 1, machine->stream, NULL, &transfer));
  const berth_buffer_shard shard = {{0, 0}, 1};
  CHECK_REFUSED("runtime", berth_buffer_scatter(NULL, &data, 1, &shard, 1, NULL, &buffer));
  CHECK_REFUSED("shards", berth_buffer_scatter(runtime, &data, 1, NULL, 1, NULL, &buffer));
  CHECK_REFUSED("buffers", berth_buffer_scatter(runtime, &data, 1, &shard, 1, NULL, NULL));
  CHECK_REFUSED("runtime", berth_buffer_gather(NULL, &data, 1, &buffer, 1, NULL, &transfer));
  CHECK_REFUSED("sources", berth_buffer_gather(runtime, &data, 1, NULL, 1, NULL, &transfer));
  CHECK_REFUSED("sources[]", berth_buffer_gather(runtime, &data, 1, &buffer, 1, NULL, &transfer));
  CHECK_REFUSED("runtime", berth_buffer_trim(NULL, &bytes));
  CHECK_REFUSED("bytes_released", berth_buffer_trim(runtime, NULL));
  CHECK_REFUSED("runtime", berth_buffer_get_counters(NULL, cpu, &counters));
  CHECK_REFUSED("counters", berth_buffer_get_counters(runtime, cpu, NULL));
}

void test_null_backend_arguments(void) {
  struct machine machine = open_machine(NULL);
  backend_functions(machine.runtime);
  buffer_functions(&machine);
  close_machine(&machine);
}
