/* SPDX-License-Identifier: Apache-2.0 */
// Arithmetic, and modules.
#include <stdlib.h>

#include "tensor.h"

static void add(long i, const kernel_arguments* a) {
  a->out[i] = a->in[0][i] + a->in[1][i];
}

// size: length of the sum, and columns.
static void multiply(long i, const kernel_arguments* a) {
  float sum = 0;
  for (long j = 0; j < a->size[0]; ++j)
    sum += a->in[0][i / a->size[1] * a->size[0] + j] * a->in[1][j * a->size[1] + i % a->size[1]];
  a->out[i] = sum;
}

static berth_status run(library* lib, const char* name, kernel* element, const tensor* a,
                        const tensor* b, long rows, long columns, tensor* out) {
  const berth_device_argument operands[] = {{"left", a->device}, {"right", b->device}};
  berth_stream stream;
  BERTH_TRY(berth_require_same_device(name, operands, 2, "call tensor_to() with {device}"));
  BERTH_TRY(library_stream(lib, a->device, &stream));
  BERTH_TRY(tensor_new(lib, rows, columns, a->device, 0, out));
  const kernel_arguments arguments = {{a->data, b->data}, out->data, {a->columns, columns}};
  const size_t bytes[3] = {tensor_bytes(a), tensor_bytes(b), tensor_bytes(out)};
  if (stream.context != NULL)
    lib->kernels.launch(element, &arguments, bytes, rows * columns, stream.native);
  else
    for (long i = 0; i < rows * columns; ++i) element(i, &arguments);
  return BERTH_OK;
}

berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum) {
  if (a->rows != b->rows || a->columns != b->columns)
    return berth_last_error_set(BERTH_INVALID_ARGUMENT, "add: the shapes differ");
  return run(lib, "add", add, a, b, a->rows, a->columns, sum);
}

berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product) {
  if (a->columns != b->rows)
    return berth_last_error_set(BERTH_INVALID_ARGUMENT, "multiply: the inner sizes differ");
  return run(lib, "multiply", multiply, a, b, a->rows, b->columns, product);
}

// Allocates `moved` and copies to it.
static berth_status copy_all(library* lib, tensor* const* tensors, tensor* moved,
                             berth_copy_range* ranges, size_t count, berth_device device) {
  berth_stream to, from;
  berth_transfer* transfer = NULL;
  BERTH_TRY(library_stream(lib, device, &to));
  BERTH_TRY(library_stream(lib, tensors[0]->device, &from));
  for (size_t index = 0; index < count; ++index) {
    const tensor* const t = tensors[index];
    BERTH_TRY(tensor_new(lib, t->rows, t->columns, device, 0, &moved[index]));
    ranges[index] = (berth_copy_range){moved[index].data, t->data, tensor_bytes(t)};
  }
  BERTH_TRY(
      berth_transfer_start_batch_between(lib->runtime, ranges, count, to, from, NULL, &transfer));
  const berth_status status = berth_transfer_wait(transfer);
  berth_transfer_release(transfer);
  return status;
}

berth_status module_to(library* lib, tensor* const* tensors, size_t count, berth_device device) {
  BERTH_TRY(berth_device_resolve(lib->runtime, device, &device));
  if (count == 0 || berth_device_is_same(tensors[0]->device, device)) return BERTH_OK;
  tensor* const moved = calloc(count, sizeof *moved);
  berth_copy_range* const ranges = calloc(count, sizeof *ranges);
  const berth_status status =
      moved != NULL && ranges != NULL
          ? copy_all(lib, tensors, moved, ranges, count, device)
          : berth_last_error_set(BERTH_OUT_OF_MEMORY, "module_to: the host has no memory");
  for (size_t index = 0; moved != NULL && index < count; ++index) {
    tensor_free(status == BERTH_OK ? tensors[index] : &moved[index]);
    if (status == BERTH_OK) *tensors[index] = moved[index];
  }
  free(moved);
  free(ranges);
  return status;
}
