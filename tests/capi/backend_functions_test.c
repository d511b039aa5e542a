/* SPDX-License-Identifier: Apache-2.0 */
// A backend in C over host memory, whose operations end when the test says so.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "parts.h"

enum { kDevices = 2, kBytes = 1000, kPendingMax = 8 };

struct memory {
  size_t bytes;
  unsigned char data[];
};

/// An operation that waits for run_pending().
struct pending {
  berth_backend_operation* operation;
  unsigned char* target;
  const unsigned char* source;
  size_t bytes;
};

struct backend {
  int buffers_live;
  int fillings_live;
  int mapped;
  int destroyed;
  bool is_late;
  bool gives_nothing;
  const char* failure;   ///< of operations; null: they succeed
  berth_status refusal;  ///< of functions
  const char* reason;    ///< of the refusal; null: none is given
  struct pending pending[kPendingMax];
  size_t pending_count;
};

static berth_status refuse(const struct backend* backend) {
  if (backend->refusal == BERTH_OK || backend->reason == NULL) return backend->refusal;
  return berth_last_error_set(backend->refusal, backend->reason);
}

static void run(const struct backend* backend, const struct pending* pending) {
  if (backend->failure != NULL) {
    berth_backend_operation_end(pending->operation, BERTH_BACKEND_ERROR, backend->failure);
    return;
  }
  memcpy(pending->target, pending->source, pending->bytes);
  berth_backend_operation_end(pending->operation, BERTH_OK, NULL);
}

static void start(struct backend* backend, struct pending pending) {
  if (!backend->is_late) {
    run(backend, &pending);
    return;
  }
  CHECK(backend->pending_count < kPendingMax);
  backend->pending[backend->pending_count++] = pending;
}

static void run_pending(struct backend* backend) {
  for (size_t i = 0; i < backend->pending_count; ++i) run(backend, &backend->pending[i]);
  backend->pending_count = 0;
}

static struct memory* new_memory(struct backend* backend, size_t bytes) {
  struct memory* const made = malloc(sizeof *made + bytes);
  CHECK(made != NULL);
  made->bytes = bytes;
  ++backend->buffers_live;
  return made;
}

static berth_status describe(void* user, int index, berth_backend_description* description) {
  static const berth_backend_attribute attributes[] = {{"cores", NULL, 4}, {"maker", "us", 0}};
  (void)user;
  description->name = index == 0 ? "first" : "second\nline";
  description->kind = "memory";
  description->memory_bytes = 1 << 20;
  description->attributes = attributes;
  description->attribute_count = 2;
  return BERTH_OK;
}

static berth_status get_memory(void* user, int index, berth_backend_memory* memory) {
  memory->bytes_used = (uint64_t)((struct backend*)user)->buffers_live + (uint64_t)index;
  return BERTH_OK;
}

static berth_status create_buffer(void* user, int index, const void* content, size_t bytes,
                                  berth_backend_operation* operation, void** buffer) {
  struct backend* const backend = user;
  BERTH_TRY(refuse(backend));
  CHECK(index >= 0 && index < kDevices);
  if (backend->gives_nothing) {
    berth_backend_operation_end(operation, BERTH_OK, NULL);
    return BERTH_OK;
  }
  struct memory* const made = new_memory(backend, bytes);
  *buffer = made;
  const struct pending pending = {operation, made->data, content, bytes};
  start(backend, pending);
  return BERTH_OK;
}

static berth_status read_buffer(void* user, void* buffer, size_t offset, void* target, size_t bytes,
                                berth_backend_operation* operation) {
  struct backend* const backend = user;
  BERTH_TRY(refuse(backend));
  const struct pending pending = {operation, target, ((struct memory*)buffer)->data + offset,
                                  bytes};
  start(backend, pending);
  return BERTH_OK;
}

static berth_status copy_buffer(void* user, void* source, int index,
                                berth_backend_operation* operation, void** buffer) {
  const struct memory* const from = source;
  return create_buffer(user, index, from->data, from->bytes, operation, buffer);
}

static void free_buffer(void* user, void* buffer) {
  --((struct backend*)user)->buffers_live;
  free(buffer);
}

static berth_status begin_buffer(void* user, int index, size_t bytes, void** buffer,
                                 void** filling) {
  (void)index;
  BERTH_TRY(refuse(user));
  *buffer = new_memory(user, bytes);
  *filling = *buffer;
  ++((struct backend*)user)->fillings_live;
  return BERTH_OK;
}

static berth_status write_part(void* user, void* filling, size_t offset, const void* content,
                               size_t bytes, int is_last, berth_backend_operation* operation) {
  struct memory* const to = filling;
  CHECK(is_last == (offset + bytes == to->bytes));
  const struct pending pending = {operation, to->data + offset, content, bytes};
  start(user, pending);
  return BERTH_OK;
}

static void free_filling(void* user, void* filling) {
  (void)filling;
  --((struct backend*)user)->fillings_live;
}

static berth_status map(void* user, void* data, size_t bytes) {
  (void)data, (void)bytes;
  ++((struct backend*)user)->mapped;
  return BERTH_OK;
}

static berth_status unmap(void* user, void* data) {
  (void)data;
  --((struct backend*)user)->mapped;
  return BERTH_OK;
}

static void destroy(void* user) {
  ++((struct backend*)user)->destroyed;
}

static berth_backend_functions functions_of(struct backend* backend) {
  berth_backend_functions functions = BERTH_BACKEND_FUNCTIONS_INIT;
  functions.user = backend;
  functions.name = "backend in C 1.0";
  functions.count = kDevices;
  functions.describe = describe;
  functions.get_memory = get_memory;
  functions.create_buffer = create_buffer;
  functions.read = read_buffer;
  functions.copy = copy_buffer;
  functions.free_buffer = free_buffer;
  functions.begin_buffer = begin_buffer;
  functions.write = write_part;
  functions.free_filling = free_filling;
  functions.map_host_memory = map;
  functions.unmap_host_memory = unmap;
  functions.destroy = destroy;
  return functions;
}

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

static void bytes_survive(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_buffer_shard shards[] = {{{type, 0}, 600}, {{type, 1}, 400}};
  unsigned char host[kBytes];
  unsigned char back[kBytes] = {0};
  for (size_t i = 0; i < kBytes; ++i) host[i] = (unsigned char)(i * 7);
  berth_buffer *parts[2], *copy = NULL;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_buffer_scatter(runtime, host, kBytes, shards, 2, NULL, parts));
  CHECK(backend->buffers_live == 2);
  CHECK_OK(berth_buffer_create_copy(runtime, shards[1].device, parts[0], NULL, &copy));
  berth_buffer_free(parts[0]);
  parts[0] = copy;
  CHECK_OK(berth_buffer_gather(runtime, back, kBytes, parts, 2, NULL, &transfer));
  CHECK_OK(berth_transfer_finish(transfer));
  CHECK(memcmp(host, back, kBytes) == 0);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "do not add up to 999 B",
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
  CHECK(backend->buffers_live == 0);
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

static void memory_is_mapped(berth_runtime* runtime, int type, struct backend* backend) {
  const berth_device device = {type, 0};
  char data[16];
  berth_host_mapping* mapping = NULL;
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
  bytes_survive(machine.runtime, type, &backend);
  a_file_fills_a_buffer(machine.runtime, type, &backend);
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
