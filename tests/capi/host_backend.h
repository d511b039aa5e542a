/* SPDX-License-Identifier: Apache-2.0 */
// A backend in C over host memory, whose operations end when the test says so.
#ifndef BERTH_TESTS_CAPI_HOST_BACKEND_H
#define BERTH_TESTS_CAPI_HOST_BACKEND_H

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
  bool reads_whole;
  size_t last_read_bytes;
  const char* version;   ///< an attribute of the backend; null: it has none
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
  backend->last_read_bytes = bytes;
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

static int reads_parts(void* user) {
  return ((struct backend*)user)->reads_whole ? 0 : 1;
}

static berth_status get_attributes(void* user, const berth_backend_attribute** attributes,
                                   size_t* attribute_count) {
  static berth_backend_attribute all[] = {{"version", NULL, 0}, {"number", NULL, 7}};
  const struct backend* const backend = user;
  CHECK(*attributes == NULL && *attribute_count == 0);
  BERTH_TRY(refuse(backend));
  if (backend->version == NULL) return BERTH_OK;
  all[0].text = backend->version;
  *attributes = all;
  *attribute_count = 2;
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
  functions.reads_parts = reads_parts;
  functions.get_attributes = get_attributes;
  return functions;
}

#endif
