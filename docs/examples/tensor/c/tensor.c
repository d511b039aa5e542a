/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <string.h>

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
  memset(stream, 0, sizeof *stream);
  if (berth_device_is_cpu(device)) return BERTH_OK;
  BERTH_TRY(berth_stream_get_current(lib->runtime, device, stream));
  if (stream->native != NULL) return BERTH_OK;
  if (device.ordinal >= LIBRARY_DEVICES_MAX)
    return berth_last_error_set(BERTH_NOT_SUPPORTED, "more devices than the library has");
  berth_stream* const own = &lib->streams[device.ordinal];
  if (own->context == NULL) BERTH_TRY(berth_stream_create(lib->runtime, device, 0, 0, own));
  *stream = *own;
  return BERTH_OK;
}

size_t tensor_bytes(const tensor* t) {
  return (size_t)(t->rows * t->columns) * sizeof(float);
}

berth_status tensor_new(library* lib, long rows, long columns, berth_device device, int flags,
                        tensor* made) {
  tensor t = {device, NULL, NULL, rows, columns};
  void* data = NULL;
  berth_stream stream;
  BERTH_TRY(berth_device_resolve(lib->runtime, device, &t.device));
  BERTH_TRY(library_stream(lib, t.device, &stream));
  BERTH_TRY(berth_device_is_cpu(t.device) && (flags & TENSOR_PINNED) != 0
                ? berth_allocator_get_pinned(lib->runtime, &t.allocator)
                : berth_allocator_get_device(lib->runtime, t.device, &t.allocator));
  BERTH_TRY(berth_allocator_allocate(t.allocator, tensor_bytes(&t), stream, &data));
  t.data = data;
  *made = t;
  return BERTH_OK;
}

void tensor_free(tensor* t) {
  if (t->data != NULL) berth_allocator_deallocate(t->allocator, t->data);
  memset(t, 0, sizeof *t);
}

float* tensor_numbers(library* lib, const tensor* t, int writes) {
  if (!berth_device_is_cpu(t->device)) return NULL;
  lib->kernels.host_uses(t->data, tensor_bytes(t), writes);
  return t->data;
}

berth_status tensor_to(library* lib, const tensor* t, berth_device device, int flags,
                       tensor* moved) {
  const int is_async = (flags & TENSOR_NON_BLOCKING) != 0;
  berth_stream to, from;
  memset(moved, 0, sizeof *moved);
  BERTH_TRY(berth_device_resolve(lib->runtime, device, &device));
  if (berth_device_is_same(device, t->device)) return BERTH_OK;
  BERTH_TRY(library_stream(lib, device, &to));
  BERTH_TRY(library_stream(lib, t->device, &from));
  BERTH_TRY(tensor_new(lib, t->rows, t->columns, device, is_async ? TENSOR_PINNED : 0, moved));
  const berth_status status = (is_async ? berth_copy_async_between : berth_copy_sync_between)(
      lib->runtime, moved->data, t->data, tensor_bytes(t), to, from);
  if (status != BERTH_OK) tensor_free(moved);
  return status;
}
