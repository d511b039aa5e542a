/* SPDX-License-Identifier: Apache-2.0 */
// The library, tensors and arithmetic.
#include "tensor.h"

#define MOST_NUMBERS (PTRDIFF_MAX / (long)sizeof(float))

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
  if (rows < 0 || columns < 0 || (columns > 0 && rows > MOST_NUMBERS / columns))
    return berth_last_error_set(BERTH_INVALID_ARGUMENT, "no tensor has this shape");
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
                        const tensor* b, long rows, long columns, tensor* out) {
  const berth_device_argument operands[] = {{"left", a->device}, {"right", b->device}};
  berth_stream stream;
  BERTH_TRY(berth_require_same_device(name, operands, 2, "call module_copy() with {device}"));
  if (!fits) return berth_last_error_set(BERTH_INVALID_ARGUMENT, "the shapes do not fit");
  BERTH_TRY(library_stream(lib, a->device, &stream));
  BERTH_TRY(tensor_new(lib, rows, columns, a->device, false, out));
  if (stream.context != NULL)
    lib->kernels.launch(element, a, b, out, stream.native);
  else
    for (long i = 0; i < rows * columns; ++i) element(i, a, b, out);
  return BERTH_OK;
}

static bool is_number(const tensor* t) {
  return t->rows == 1 && t->columns == 1;
}

static float at(const tensor* t, long i) {
  return ((const float*)t->data)[is_number(t) ? 0 : i];
}

static void add(long i, const tensor* a, const tensor* b, const tensor* out) {
  ((float*)out->data)[i] = at(a, i) + at(b, i);
}

static bool travels(const tensor* number, const tensor* to) {
  return is_number(number) && berth_device_is_cpu(number->device) &&
         !berth_device_is_cpu(to->device);
}

berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum) {
  if (travels(a, b)) return tensor_add(lib, b, a, sum);
  if (travels(b, a)) {
    tensor moved;
    BERTH_TRY(module_copy(lib, b, 1, a->device, false, &moved));
    const berth_status status = tensor_add(lib, a, &moved, sum);
    tensor_free(&moved);
    return status;
  }
  const tensor* const like = is_number(a) ? b : a;
  const bool fits =
      is_number(a) || is_number(b) || (a->rows == b->rows && a->columns == b->columns);
  return run(lib, "add", add, fits, a, b, like->rows, like->columns, sum);
}

static void multiply(long i, const tensor* a, const tensor* b, const tensor* out) {
  const float* const row = (const float*)a->data + i / b->columns * a->columns;
  const float* const column = (const float*)b->data + i % b->columns;
  float sum = 0;
  for (long j = 0; j < a->columns; ++j) sum += row[j] * column[j * b->columns];
  ((float*)out->data)[i] = sum;
}

berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product) {
  return run(lib, "multiply", multiply, a->columns == b->rows, a, b, a->rows, b->columns, product);
}
