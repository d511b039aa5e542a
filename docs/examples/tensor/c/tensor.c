/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "internal.h"

static const char* own_error = NULL;

berth_status refuse(const char* why) {
  own_error = why;
  return BERTH_INVALID_ARGUMENT;
}

const char* tensor_error(void) {
  const char* const error = own_error != NULL ? own_error : berth_last_error_message();
  own_error = NULL;
  return error;
}

berth_status library_open(library* lib, kernel_runner with) {
  memset(lib, 0, sizeof *lib);
  lib->kernels = with;
  return berth_runtime_create(NULL, &lib->runtime);
}

void library_close(library* lib) {
  for (int index = 0; index < LIBRARY_DEVICES_MAX; ++index)
    if (lib->streams[index].context != NULL) berth_stream_destroy(lib->streams[index]);
  berth_runtime_destroy(lib->runtime);
}

berth_status library_stream(library* lib, berth_device device, berth_stream* stream) {
  if (device.ordinal >= LIBRARY_DEVICES_MAX) return refuse("more devices than the library has");
  berth_stream* const own = &lib->streams[device.ordinal];
  if (own->context == NULL) TRY(berth_stream_create(lib->runtime, device, 0, 0, own));
  *stream = *own;
  return BERTH_OK;
}

int is_cpu(berth_device device) {
  return device.type == BERTH_DEVICE_CPU;
}

int is_same(berth_device a, berth_device b) {
  return a.type == b.type && a.ordinal == b.ordinal;
}

size_t tensor_bytes(const tensor* t) {
  return (size_t)(t->rows * t->columns) * sizeof(float);
}

berth_status tensor_new(library* lib, long rows, long columns, berth_device device, int flags,
                        tensor* made) {
  tensor t = {device, NULL, NULL, rows, columns};
  void* data = NULL;
  TRY(berth_device_resolve(lib->runtime, device, &t.device));
  if (is_cpu(t.device) && (flags & TENSOR_PINNED) != 0) {
    TRY(berth_allocator_get_pinned(lib->runtime, &t.allocator));
    TRY(berth_allocator_allocate_pinned(t.allocator, tensor_bytes(&t), &data));
  } else if (is_cpu(t.device)) {
    TRY(berth_allocator_get_host(lib->runtime, &t.allocator));
    TRY(berth_allocator_allocate_host(t.allocator, tensor_bytes(&t), &data));
  } else {
    berth_stream stream;
    TRY(library_stream(lib, t.device, &stream));
    TRY(berth_allocator_get_device(lib->runtime, t.device, &t.allocator));
    TRY(berth_allocator_allocate(t.allocator, tensor_bytes(&t), stream, &data));
  }
  t.data = data;
  *made = t;
  return BERTH_OK;
}

void tensor_free(tensor* t) {
  if (t->data != NULL) berth_allocator_deallocate(t->allocator, t->data);
  memset(t, 0, sizeof *t);
}

berth_status streams_between(library* lib, berth_device target, berth_device source,
                             berth_stream streams[2]) {
  TRY(library_stream(lib, is_cpu(target) ? source : target, &streams[0]));
  return library_stream(lib, is_cpu(source) ? target : source, &streams[1]);
}

berth_status tensor_to(library* lib, const tensor* t, berth_device device, int flags,
                       tensor* moved) {
  memset(moved, 0, sizeof *moved);
  TRY(berth_device_resolve(lib->runtime, device, &device));
  if (is_same(device, t->device)) return BERTH_OK;
  const int is_async = (flags & TENSOR_NON_BLOCKING) != 0;
  berth_stream streams[2];
  TRY(streams_between(lib, device, t->device, streams));
  TRY(tensor_new(lib, t->rows, t->columns, device, is_async ? TENSOR_PINNED : 0, moved));
  const berth_status status =
      is_async || !(is_cpu(device) || is_cpu(t->device))
          ? berth_copy_async_between(lib->runtime, moved->data, t->data, tensor_bytes(t),
                                     streams[0], streams[1])
          : berth_copy_sync(lib->runtime, moved->data, t->data, tensor_bytes(t), streams[0]);
  if (status != BERTH_OK) tensor_free(moved);
  return status;
}

berth_status tensor_write(library* lib, tensor* t, const float* values) {
  if (!is_cpu(t->device)) return refuse("tensor_write: the tensor is not on the CPU");
  lib->kernels.host_uses(t->data, tensor_bytes(t), 1);
  memcpy(t->data, values, tensor_bytes(t));
  return BERTH_OK;
}

berth_status tensor_read(library* lib, const tensor* t, float* values) {
  if (!is_cpu(t->device)) return refuse("tensor_read: the tensor is not on the CPU");
  lib->kernels.host_uses(t->data, tensor_bytes(t), 0);
  memcpy(values, t->data, tensor_bytes(t));
  return BERTH_OK;
}
