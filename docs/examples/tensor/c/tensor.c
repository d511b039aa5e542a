/* SPDX-License-Identifier: Apache-2.0 */
// The library, tensors and arithmetic.
#include "tensor.h"

berth_status library_open(library* lib, kernel_runner kernels) {
  *lib = (library){.kernels = kernels};
  return berth_runtime_create(NULL, &lib->runtime);
}

void library_close(library* lib) {
  for (int i = 0; i < LIBRARY_DEVICES_MAX; ++i)
    if (lib->streams[i].context != NULL) berth_stream_destroy(lib->streams[i]);
  berth_runtime_destroy(lib->runtime);
}

berth_status library_stream(library* lib, berth_device device, berth_stream* stream) {
  *stream = (berth_stream){0};
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

berth_status tensor_new(library* lib, long rows, long columns, berth_device device, bool pinned,
                        tensor* made) {
  tensor t = {.rows = rows, .columns = columns};
  berth_stream stream;
  *made = (tensor){0};
  BERTH_TRY(berth_device_resolve(lib->runtime, device, &t.device));
  BERTH_TRY(library_stream(lib, t.device, &stream));
  BERTH_TRY(pinned && berth_device_is_cpu(t.device)
                ? berth_allocator_get_pinned(lib->runtime, &t.allocator)
                : berth_allocator_get_device(lib->runtime, t.device, &t.allocator));
  BERTH_TRY(berth_allocator_allocate(t.allocator, tensor_bytes(&t), stream, &t.data));
  *made = t;
  return BERTH_OK;
}

void tensor_free(tensor* t) {
  if (t->data != NULL) berth_allocator_deallocate(t->allocator, t->data);
  *t = (tensor){0};
}

size_t tensor_bytes(const tensor* t) {
  return (size_t)(t->rows * t->columns) * sizeof(float);
}

float* tensor_numbers(library* lib, const tensor* t, bool writes) {
  if (!berth_device_is_cpu(t->device)) return NULL;
  lib->kernels.host_uses(t->data, tensor_bytes(t), writes);
  return t->data;
}

static berth_status run(library* lib, const char* name, kernel* element, bool fits, const tensor* a,
                        const tensor* b, tensor* out) {
  const berth_device_argument operands[] = {{"left", a->device}, {"right", b->device}};
  berth_stream stream;
  BERTH_TRY(berth_require_same_device(name, operands, 2, "call module_copy() with {device}"));
  if (!fits) return berth_last_error_set(BERTH_INVALID_ARGUMENT, "the shapes do not fit");
  BERTH_TRY(library_stream(lib, a->device, &stream));
  BERTH_TRY(tensor_new(lib, a->rows, b->columns, a->device, false, out));
  if (stream.context != NULL)
    lib->kernels.launch(element, a, b, out, stream.native);
  else
    for (long i = 0; i < out->rows * out->columns; ++i)
      element(i, a->data, b->data, out->data, a->columns, b->columns);
  return BERTH_OK;
}

static void add(long i, const float* a, const float* b, float* out, long inner, long columns) {
  (void)inner, (void)columns;
  out[i] = a[i] + b[i];
}

berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum) {
  return run(lib, "add", add, a->rows == b->rows && a->columns == b->columns, a, b, sum);
}

static void multiply(long i, const float* a, const float* b, float* out, long inner, long columns) {
  out[i] = 0;
  for (long j = 0; j < inner; ++j)
    out[i] += a[i / columns * inner + j] * b[j * columns + i % columns];
}

berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product) {
  return run(lib, "multiply", multiply, a->columns == b->rows, a, b, product);
}
