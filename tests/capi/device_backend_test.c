/* SPDX-License-Identifier: Apache-2.0 */
// A PJRT plug-in of the tests, registered and used by a C program.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>

#include "check.h"
#include "parts.h"

enum { kBytes = 100000, kOffset = 12345 };

static void fill(unsigned char* bytes) {
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = (unsigned char)(i * 7 + i / 253);
}

static bool text_is(char* text, const char* expected) {
  const bool is = strcmp(text, expected) == 0;
  berth_string_free(text);
  return is;
}

static berth_device device_of(int type, int ordinal) {
  const berth_device device = {type, ordinal};
  return device;
}

static void devices_are_described(berth_runtime* runtime, int type) {
  char* text = NULL;
  int count = 0;
  CHECK_OK(berth_device_type_get_device_count(runtime, type, &count));
  CHECK(count == 3);
  CHECK_OK(berth_device_type_get_device_count(runtime, BERTH_DEVICE_CPU, &count));
  CHECK(count == 1);
  CHECK_OK(berth_device_type_get_backend(runtime, type, &text));
  CHECK(text_is(text, "PJRT test 7.1, API 0.81"));
  CHECK_OK(berth_device_type_get_attributes(runtime, type, &text));
  CHECK(
      text_is(text, "{\"pjrt_api_version\":\"0.81\",\"pjrt_extensions\":\"FFI type_99 Layouts\"}"));
  CHECK_OK(berth_device_type_get_attributes(runtime, BERTH_DEVICE_CPU, &text));
  CHECK(text_is(text, "{}"));
  CHECK_OK(berth_device_type_get_problem(runtime, type, &text));
  CHECK(text_is(text, ""));
  CHECK_OK(berth_device_describe(runtime, device_of(type, 1), &text));
  CHECK(text_is(text,
                "{\"name\":\"TestDevice(id=1)\",\"kind\":\"test device\",\"memory_bytes\":"
                "1048576,\"attributes\":{\"id\":1,\"process_index\":0,\"local_hardware_id\":101,"
                "\"coords\":[1,0,0],\"num_cores\":2,\"scale\":2.5,\"is_test\":true,\"vendor\":"
                "\"berth\"}}"));
  CHECK_OK(berth_device_type_explain(runtime, type, &text));
  CHECK(strstr(text, "[{\"logical\":0,\"physical\":100,\"sentence\":\"Visible as cpjrt:0: ") ==
        text);
  berth_string_free(text);
  CHECK_OK(berth_device_type_explain(runtime, BERTH_DEVICE_CPU, &text));
  CHECK(text_is(text, "[]"));
  berth_backend_memory memory = BERTH_BACKEND_MEMORY_INIT;
  CHECK_OK(berth_device_get_backend_memory(runtime, device_of(type, 0), &memory));
  CHECK(memory.bytes_used == 0 && memory.bytes_limit == 1 << 20);
  CHECK(memory.allocations == UINT64_MAX);
}

static void bytes_survive(const struct machine* machine, int type) {
  berth_runtime* const runtime = machine->runtime;
  unsigned char* const host = malloc(kBytes);
  unsigned char* const back = calloc(1, kBytes);
  CHECK(host != NULL && back != NULL);
  fill(host);

  berth_buffer* first = NULL;
  berth_buffer* copy = NULL;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_buffer_create(runtime, device_of(type, 0), host, kBytes, NULL, &first));
  CHECK_OK(berth_buffer_get_transfer(first, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK_OK(berth_buffer_create_copy(runtime, device_of(type, 2), first, NULL, &copy));
  berth_device device;
  size_t bytes = 0;
  CHECK_OK(berth_buffer_get_device(copy, &device));
  CHECK(device.type == type && device.ordinal == 2);
  CHECK_OK(berth_buffer_get_bytes(copy, &bytes));
  CHECK(bytes == kBytes);
  CHECK_OK(berth_buffer_read(copy, back, kOffset, kBytes - kOffset, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host + kOffset, back, kBytes - kOffset) == 0);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "are not in a buffer",
              berth_buffer_read(copy, back, kOffset, kBytes, NULL, NULL));

  void* data = NULL;
  berth_buffer* third = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_buffer_copy(runtime, data, copy, 0, kBytes, machine->stream, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK_OK(berth_buffer_create_on_stream(runtime, device_of(type, 1), data, kBytes, machine->stream,
                                         NULL, &third));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  memset(back, 0, kBytes);
  CHECK_OK(berth_buffer_read(third, back, 0, kBytes, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host, back, kBytes) == 0);

  berth_buffer_counters counters = BERTH_BUFFER_COUNTERS_INIT;
  CHECK_OK(berth_buffer_get_counters(runtime, device_of(type, 2), &counters));
  CHECK(counters.buffers_live == 1 && counters.bytes_live == kBytes);
  CHECK(counters.bytes_copied == kBytes);
  berth_buffer_free(first);
  berth_buffer_free(copy);
  berth_buffer_free(third);
  berth_buffer_free(NULL);
  CHECK_OK(berth_buffer_get_counters(runtime, device_of(type, 2), &counters));
  CHECK(counters.buffers_live == 0 && counters.buffers_created == 1);
  free(host);
  free(back);
}

/// Makes a file of the template `path`, and opens it.
static int make_file(char* path) {
  const int descriptor = mkstemp(path);
  CHECK(descriptor >= 0);
  return descriptor;
}

static void number_bytes(unsigned char* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) memory[i] = (unsigned char)(i * 3);
}

static void a_buffer_is_written_to_a_file(berth_runtime* runtime, int type) {
  char path[] = "/tmp/berth-test-XXXXXX";
  const int descriptor = make_file(path);
  unsigned char host[1000];
  unsigned char back[903];
  number_bytes(host, sizeof host);
  berth_file* file = NULL;
  berth_buffer* buffer = NULL;
  berth_transfer* transfer = NULL;
  size_t done = 0;
  CHECK_OK(berth_file_open_to_write(path, BERTH_FILE_AUTOMATIC, &file));
  CHECK_OK(berth_buffer_create(runtime, device_of(type, 0), host, sizeof host, NULL, &buffer));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target",
              berth_buffer_read_to_file(buffer, NULL, 3, 100, 900, NULL, &transfer));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "are not in a buffer",
              berth_buffer_read_to_file(buffer, file, 3, 101, 900, NULL, &transfer));
  CHECK_OK(berth_buffer_read_to_file(buffer, file, 3, 100, 900, NULL, NULL));
  CHECK_OK(berth_buffer_read_to_file(buffer, file, 3, 100, 900, NULL, &transfer));
  berth_buffer_free(buffer);
  CHECK_OK(berth_transfer_wait(transfer));
  CHECK_OK(berth_transfer_progress(transfer, &done, NULL));
  CHECK(done == 900);
  berth_transfer_release(transfer);
  berth_file_close(file);
  CHECK(read(descriptor, back, sizeof back) == (ssize_t)sizeof back);
  CHECK(memcmp(host + 100, back + 3, 900) == 0);
  close(descriptor);
  unlink(path);
}

static void a_file_fills_a_buffer(berth_runtime* runtime, int type) {
  char path[] = "/tmp/berth-test-XXXXXX";
  const int descriptor = make_file(path);
  unsigned char host[1000];
  unsigned char back[1000];
  number_bytes(host, sizeof host);
  CHECK(write(descriptor, host, sizeof host) == (ssize_t)sizeof host);
  close(descriptor);
  berth_file* file = NULL;
  berth_buffer* buffer = NULL;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_file_open_to_read(path, BERTH_FILE_AUTOMATIC, &file));
  CHECK_OK(
      berth_buffer_create_from_file(runtime, device_of(type, 0), file, 100, 900, NULL, &buffer));
  CHECK_FAILS(
      BERTH_FILE, path,
      berth_buffer_create_from_file(runtime, device_of(type, 0), file, 101, 900, NULL, &buffer));
  CHECK_OK(berth_buffer_read(buffer, back, 0, 900, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host + 100, back, 900) == 0);
  CHECK_OK(berth_buffer_get_transfer(buffer, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  berth_buffer_free(buffer);
  berth_file_close(file);
  unlink(path);
}

static void memory_is_mapped_until_it_is_freed(berth_runtime* runtime, int type) {
  static char data[4096];
  berth_host_mapping* mapping = NULL;
  berth_host_mapping* second = NULL;
  CHECK_OK(berth_host_mapping_create(runtime, device_of(type, 0), data, sizeof data, &mapping));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "which are mapped for cpjrt",
              berth_host_mapping_create(runtime, device_of(type, 1), data + 4095, 1, &second));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "memory to map",
              berth_host_mapping_create(runtime, device_of(type, 1), NULL, 1, &second));
  berth_host_mapping_free(mapping);
  CHECK_OK(berth_host_mapping_create(runtime, device_of(type, 1), data + 4095, 1, &second));
  berth_host_mapping_free(second);
  berth_host_mapping_free(NULL);
}

static void refusals_have_a_status(berth_runtime* runtime, const char* path) {
  const berth_pjrt_option fail = {"fail", "Client_Create", 0, 0, BERTH_PJRT_STRING};
  CHECK_FAILS(BERTH_BACKEND_ERROR, "PJRT_Client_Create failed with INTERNAL (13)",
              berth_pjrt_register(runtime, "failing", path, &fail, 1));
  CHECK(berth_last_error_driver_code() == 13);
  const berth_pjrt_option unknown = {"fail", NULL, 0, 0, 9};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"options[].type\" is 9",
              berth_pjrt_register(runtime, "failing", path, &unknown, 1));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cannot be loaded",
              berth_pjrt_register(runtime, "failing", "/nonexistent.so", NULL, 0));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "device type cpjrt has a backend",
              berth_pjrt_register(runtime, "cpjrt", path, NULL, 0));
  berth_buffer* buffer = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "has no backend",
              berth_buffer_create(runtime, berth_device_cuda(0), path, 1, NULL, &buffer));
}

static void a_topology_is_described(berth_runtime* runtime, const char* path) {
  int type = 0;
  int count = 0;
  char* text = NULL;
  CHECK_OK(berth_pjrt_register_topology(runtime, "ctopology", path, "test:4", NULL, 0));
  CHECK_OK(berth_device_type_register("ctopology", &type));
  CHECK_OK(berth_device_type_get_device_count(runtime, type, &count));
  CHECK(count == 4);
  const berth_pjrt_option label = {"label", "planned", 0, 0, BERTH_PJRT_STRING};
  CHECK_OK(berth_pjrt_register_topology(runtime, "clabelled", path, "test:1", &label, 1));
  CHECK_OK(berth_device_type_register("clabelled", &type));
  CHECK_OK(berth_device_type_get_backend(runtime, type, &text));
  CHECK(text_is(text, "PJRT planned topology test:1, API 0.81"));
  const berth_pjrt_option unknown = {"label", NULL, 0, 0, 9};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"options[].type\" is 9",
              berth_pjrt_register_topology(runtime, "cplain", path, "test:1", &unknown, 1));
}

void test_device_backend(void) {
  const char* const folder = getenv("BERTH_PJRT_PLUGINS");
  if (folder == NULL) {
    puts("no plug-in of the tests: device backends are not tested");
    return;
  }
  char path[4096];
  CHECK(snprintf(path, sizeof path, "%s/libpjrt_plugin_current.so", folder) < (int)sizeof path);
  struct machine machine = open_machine(NULL);
  const berth_pjrt_option options[] = {
      {"devices", NULL, 3, 0, BERTH_PJRT_INT64},
      {"memory_bytes", NULL, 1 << 20, 0, BERTH_PJRT_INT64},
      {"late", NULL, 1, 0, BERTH_PJRT_BOOL},
      {"scale", NULL, 0, 2.5, BERTH_PJRT_FLOAT},
  };
  CHECK_OK(berth_pjrt_register(machine.runtime, "cpjrt", path, options, 4));
  int type = 0;
  CHECK_OK(berth_device_type_register("cpjrt", &type));
  devices_are_described(machine.runtime, type);
  bytes_survive(&machine, type);
  a_file_fills_a_buffer(machine.runtime, type);
  a_buffer_is_written_to_a_file(machine.runtime, type);
  memory_is_mapped_until_it_is_freed(machine.runtime, type);
  refusals_have_a_status(machine.runtime, path);
  a_topology_is_described(machine.runtime, path);
  berth_buffer* late = NULL;
  CHECK_OK(berth_buffer_create(machine.runtime, device_of(type, 0), "abcd", 4, NULL, &late));
  close_machine(&machine);
  char target[4];
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "after its Runtime was destroyed",
              berth_buffer_read(late, target, 0, 4, NULL, NULL));
  berth_buffer_free(late);
}
