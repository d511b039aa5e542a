/* SPDX-License-Identifier: Apache-2.0 */
// A backend in C, from its registration to the end of its runtime.
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host_backend.h"
#include "parts.h"

static bool text_is(char* text, const char* expected) {
  const bool is = strcmp(text, expected) == 0;
  berth_string_free(text);
  return is;
}

static void what_is_missing_is_refused(berth_runtime* runtime, struct backend* backend) {
  const berth_backend_functions good = functions_of(backend);
  berth_backend_functions bad = good;
#define CHECK_MISSING(member, type_name) \
  bad = good;                            \
  bad.member = NULL;                     \
  CHECK_REFUSED("functions." #member, berth_backend_register(runtime, type_name, &bad))
  CHECK_MISSING(name, "cbackend");
  CHECK_MISSING(create_buffer, "cbackend");
  CHECK_MISSING(read, "cbackend");
  CHECK_MISSING(copy, "cbackend");
  CHECK_MISSING(free_buffer, "cbackend");
  CHECK_MISSING(write, "cbackend");
  CHECK_MISSING(free_filling, "cbackend");
  CHECK_MISSING(unmap_host_memory, "cbackend");
  bad = good;
  bad.count = -1;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"functions.count\" is -1",
              berth_backend_register(runtime, "cbackend", &bad));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cuda is a device type of berth's own",
              berth_backend_register(runtime, "cuda", &good));
  CHECK(backend->destroyed == 0);
}

static void devices_are_described(berth_runtime* runtime, int type) {
  const berth_device second = {type, 1};
  char* text = NULL;
  CHECK_OK(berth_device_type_get_backend(runtime, type, &text));
  CHECK(text_is(text, "backend in C 1.0"));
  CHECK_OK(berth_device_describe(runtime, second, &text));
  CHECK(text_is(text,
                "{\"name\":\"second\\\\x0aline\",\"kind\":\"memory\",\"memory_bytes\":1048576,"
                "\"attributes\":{\"cores\":4,\"maker\":\"us\"}}"));
  berth_backend_memory memory = BERTH_BACKEND_MEMORY_INIT;
  CHECK_OK(berth_device_get_backend_memory(runtime, second, &memory));
  CHECK(memory.bytes_used == 1 && memory.bytes_limit == UINT64_MAX);
}

/// The attributes of a backend, after its registration as `name`.
static char* attributes_of(berth_runtime* runtime, const char* name,
                           const berth_backend_functions* functions) {
  int type = 0;
  char* text = NULL;
  CHECK_OK(berth_backend_register(runtime, name, functions));
  CHECK_OK(berth_device_type_register(name, &type));
  CHECK_OK(berth_device_type_get_attributes(runtime, type, &text));
  return text;
}

static berth_status get_nameless_attribute(void* user, const berth_backend_attribute** attributes,
                                           size_t* attribute_count) {
  static const berth_backend_attribute nameless = {NULL, "1.0", 0};
  (void)user;
  *attributes = &nameless;
  *attribute_count = 1;
  return BERTH_OK;
}

static void a_backend_has_attributes(berth_runtime* runtime, struct backend* backend) {
  char version[] = "1.0\nbeta";
  berth_backend_functions functions = functions_of(backend);
  functions.destroy = NULL;
  CHECK(text_is(attributes_of(runtime, "cplain", &functions), "{}"));
  backend->version = version;
  char* const text = attributes_of(runtime, "cversion", &functions);
  CHECK(text_is(text, "{\"version\":\"1.0\\nbeta\",\"number\":7}"));
  version[0] = '2';  // it was copied
  int type = 0;
  char* again = NULL;
  CHECK_OK(berth_device_type_register("cversion", &type));
  CHECK_OK(berth_device_type_get_attributes(runtime, type, &again));
  CHECK(text_is(again, "{\"version\":\"1.0\\nbeta\",\"number\":7}"));
  functions.get_attributes = NULL;
  CHECK(text_is(attributes_of(runtime, "cnone", &functions), "{}"));
  // A program that does not know the function.
  functions.get_attributes = get_attributes;
  functions.struct_size = offsetof(berth_backend_functions, get_attributes);
  CHECK(text_is(attributes_of(runtime, "cbefore", &functions), "{}"));

  functions = functions_of(backend);
  backend->refusal = BERTH_NOT_SUPPORTED;
  backend->reason = "no version";
  CHECK_FAILS(BERTH_NOT_SUPPORTED,
              "crefusing (backend in C 1.0): get_attributes() failed with BERTH_NOT_SUPPORTED: "
              "no version",
              berth_backend_register(runtime, "crefusing", &functions));
  CHECK(backend->destroyed == 0);
  backend->refusal = BERTH_OK;
  backend->reason = NULL;
  backend->version = NULL;
  functions.get_attributes = get_nameless_attribute;
  CHECK_REFUSED("attributes[].name", berth_backend_register(runtime, "cnameless", &functions));
  CHECK(backend->destroyed == 0);
}

static void bytes_survive(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_buffer_shard shards[] = {{{type, 0}, 600}, {{type, 1}, 400}, {{type, 1}, 0}};
  unsigned char host[kBytes];
  unsigned char back[kBytes] = {0};
  for (size_t i = 0; i < kBytes; ++i) host[i] = (unsigned char)(i * 7);
  berth_buffer *parts[3], *copy = NULL;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_buffer_scatter(runtime, host, kBytes, shards, 3, NULL, parts));
  CHECK(backend->buffers_live == 2);
  CHECK_OK(berth_buffer_create_copy(runtime, shards[1].device, parts[0], NULL, &copy));
  berth_buffer_free(parts[0]);
  parts[0] = copy;
  CHECK_OK(berth_buffer_gather(runtime, back, kBytes, parts, 3, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host, back, kBytes) == 0);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "the target of a gather has 999 B",
              berth_buffer_gather(runtime, back, kBytes - 1, parts, 2, NULL, NULL));

  backend->is_late = true;
  CHECK_OK(berth_buffer_read(parts[1], back, 0, 400, NULL, &transfer));
  bool is_done = true;
  CHECK_OK(berth_transfer_is_done(transfer, &is_done));
  CHECK(!is_done);
  run_pending(backend);
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host + 600, back, 400) == 0);
  backend->failure = "the cable is out";
  CHECK_OK(berth_buffer_read(parts[1], back, 0, 400, NULL, &transfer));
  run_pending(backend);
  CHECK_FAILS(BERTH_BACKEND_ERROR, "failed with BERTH_BACKEND_ERROR: the cable is out",
              berth_transfer_finish(transfer));
  backend->failure = NULL;
  backend->is_late = false;
  berth_buffer_free(parts[0]);
  berth_buffer_free(parts[1]);
  berth_buffer_free(parts[2]);
  CHECK(backend->buffers_live == 0);
}

/// A backend cannot read the buffers of another one, so the bytes pass through the host.
static void a_buffer_is_copied_to_another_backend(berth_runtime* runtime, int type) {
  static struct backend other = {0};
  const berth_backend_functions functions = functions_of(&other);
  int other_type = 0;
  CHECK_OK(berth_backend_register(runtime, "cbackend2", &functions));
  CHECK_OK(berth_device_type_register("cbackend2", &other_type));
  const berth_device from = {type, 0};
  const berth_device to = {other_type, 1};
  berth_buffer *source = NULL, *copy = NULL;
  berth_transfer* transfer = NULL;
  char back[4] = {0};
  CHECK_OK(berth_buffer_create(runtime, from, "abc", 3, NULL, &source));
  CHECK_OK(berth_buffer_create_copy(runtime, to, source, NULL, &copy));
  CHECK_OK(berth_buffer_read(copy, back, 0, 3, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(strcmp(back, "abc") == 0);
  berth_buffer_free(source);
  berth_buffer_free(copy);
}

static void a_file_fills_a_buffer(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_device device = {type, 0};
  char path[] = "/tmp/berth-test-XXXXXX";
  const int descriptor = mkstemp(path);
  CHECK(descriptor >= 0);
  FILE* const out = fdopen(descriptor, "wb");
  CHECK(out != NULL && fwrite("0123456789", 10, 1, out) == 1 && fclose(out) == 0);
  berth_file* file = NULL;
  berth_buffer* buffer = NULL;
  berth_transfer* transfer = NULL;
  char back[9] = {0};
  CHECK_OK(berth_file_open_to_read(path, BERTH_FILE_AUTOMATIC, &file));
  CHECK_OK(berth_buffer_create_from_file(runtime, device, file, 2, 8, NULL, &buffer));
  CHECK_OK(berth_buffer_get_transfer(buffer, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK_OK(berth_buffer_read(buffer, back, 0, 8, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(strcmp(back, "23456789") == 0);
  berth_buffer_free(buffer);
  CHECK(backend->fillings_live == 0);
  berth_file_close(file);
  remove(path);
}

/// Writes 6 of 10 bytes of a buffer to a file. Returns how many the backend was asked for.
static size_t bytes_read_for_a_file(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_device device = {type, 0};
  char path[] = "/tmp/berth-test-XXXXXX";
  const int descriptor = mkstemp(path);
  CHECK(descriptor >= 0);
  berth_file* file = NULL;
  berth_buffer* buffer = NULL;
  berth_transfer* transfer = NULL;
  char back[7] = {0};
  CHECK_OK(berth_buffer_create(runtime, device, "0123456789", 10, NULL, &buffer));
  CHECK_OK(berth_file_open_to_write(path, BERTH_FILE_AUTOMATIC, &file));
  CHECK_OK(berth_buffer_read_to_file(buffer, file, 0, 3, 6, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  berth_file_close(file);
  FILE* const in = fdopen(descriptor, "rb");
  CHECK(in != NULL && fread(back, 6, 1, in) == 1 && fclose(in) == 0);
  CHECK(strcmp(back, "345678") == 0);
  berth_buffer_free(buffer);
  remove(path);
  return backend->last_read_bytes;
}

static void parts_are_read_unless_the_backend_denies_it(berth_runtime* runtime, int type,
                                                        struct backend* backend) {
  CHECK(bytes_read_for_a_file(runtime, type, backend) == 6);
  backend->reads_whole = true;
  CHECK(bytes_read_for_a_file(runtime, type, backend) == 10);
  // Without the function, also of a program that does not know it.
  berth_backend_functions functions = functions_of(backend);
  functions.destroy = NULL;
  functions.reads_parts = NULL;
  int other = 0;
  CHECK_OK(berth_backend_register(runtime, "cwhole", &functions));
  CHECK_OK(berth_device_type_register("cwhole", &other));
  CHECK(bytes_read_for_a_file(runtime, other, backend) == 6);
  functions.reads_parts = reads_parts;
  functions.struct_size = offsetof(berth_backend_functions, reads_parts);
  CHECK_OK(berth_backend_register(runtime, "colder", &functions));
  CHECK_OK(berth_device_type_register("colder", &other));
  CHECK(bytes_read_for_a_file(runtime, other, backend) == 6);
  backend->reads_whole = false;
}

static void memory_is_mapped(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_device device = {type, 0};
  char data[16];
  berth_host_mapping* mapping = NULL;
  size_t released = 0;
  CHECK(backend->mapped == 3);  // staging memory of the devices that have copied files
  CHECK_OK(berth_buffer_trim(runtime, &released));
  CHECK(released == (size_t)3 * 12 << 20 && backend->mapped == 0);
  CHECK_OK(berth_host_mapping_create(runtime, device, data, sizeof data, &mapping));
  CHECK(backend->mapped == 1);
  berth_host_mapping_free(mapping);
  CHECK(backend->mapped == 0);
}

static void refusals_have_a_status_and_a_reason(berth_runtime* runtime, int type,
                                                struct backend* backend) {
  const berth_device device = {type, 0};
  berth_buffer* buffer = NULL;
  const struct {
    berth_status refusal;
    berth_status status;
  } refusals[] = {
      {BERTH_OUT_OF_MEMORY, BERTH_OUT_OF_MEMORY},       {BERTH_NOT_SUPPORTED, BERTH_NOT_SUPPORTED},
      {BERTH_INVALID_ARGUMENT, BERTH_INVALID_ARGUMENT}, {BERTH_CANCELLED, BERTH_CANCELLED},
      {BERTH_BACKEND_ERROR, BERTH_BACKEND_ERROR},       {(berth_status)99, BERTH_BACKEND_ERROR}};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    backend->refusal = refusals[i].refusal;
    backend->reason = "no room";
    CHECK_FAILS(refusals[i].status, ": no room",
                berth_buffer_create(runtime, device, "abc", 3, NULL, &buffer));
    CHECK(strstr(berth_last_error_message(),
                 "cbackend (backend in C 1.0): create_buffer() failed with ") != NULL);
    backend->reason = NULL;  // the reason of the last failure is not that of this one
    CHECK(berth_buffer_create(runtime, device, "abc", 3, NULL, &buffer) == refusals[i].status);
    CHECK(strstr(berth_last_error_message(), "no room") == NULL);
  }
  CHECK(strstr(berth_last_error_message(), "failed with unknown berth_status 99") != NULL);
  backend->refusal = BERTH_OK;
  backend->gives_nothing = true;
  CHECK_FAILS(BERTH_BACKEND_ERROR, "the backend of cbackend:0 (backend in C 1.0) gave no buffer",
              berth_buffer_create(runtime, device, "abc", 3, NULL, &buffer));
  backend->gives_nothing = false;
  CHECK(buffer == NULL && backend->buffers_live == 0);
}

void test_backend_functions(void) {
  struct machine machine = open_machine(NULL);
  struct backend backend = {0};
  int type = 0;
  what_is_missing_is_refused(machine.runtime, &backend);
  const berth_backend_functions functions = functions_of(&backend);
  CHECK_OK(berth_backend_register(machine.runtime, "cbackend", &functions));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "device type cbackend has a backend (backend in C 1.0)",
              berth_backend_register(machine.runtime, "cbackend", &functions));
  CHECK(backend.destroyed == 0);
  CHECK_OK(berth_device_type_register("cbackend", &type));
  devices_are_described(machine.runtime, type);
  a_backend_has_attributes(machine.runtime, &backend);
  bytes_survive(machine.runtime, type, &backend);
  a_buffer_is_copied_to_another_backend(machine.runtime, type);
  a_file_fills_a_buffer(machine.runtime, type, &backend);
  parts_are_read_unless_the_backend_denies_it(machine.runtime, type, &backend);
  memory_is_mapped(machine.runtime, type, &backend);
  refusals_have_a_status_and_a_reason(machine.runtime, type, &backend);
  const berth_device device = {type, 0};
  berth_buffer* left = NULL;
  CHECK_OK(berth_buffer_create(machine.runtime, device, "abc", 3, NULL, &left));
  close_machine(&machine);
  CHECK(backend.destroyed == 1 && backend.buffers_live == 0);
  berth_buffer_free(left);
  berth_backend_operation_end(NULL, BERTH_OK, NULL);
}
