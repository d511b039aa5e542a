/* SPDX-License-Identifier: Apache-2.0 */
// Arithmetic, and modules.
#include <stdlib.h>

#include "internal.h"

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
  TRY(berth_require_same_device(name, operands, 2, "call tensor_to() with {device}"));
  TRY(tensor_new(lib, rows, columns, a->device, 0, out));
  const kernel_arguments arguments = {{a->data, b->data}, out->data, {a->columns, columns}};
  const size_t bytes[3] = {tensor_bytes(a), tensor_bytes(b), tensor_bytes(out)};
  if (is_cpu(a->device)) {
    for (long i = 0; i < rows * columns; ++i) element(i, &arguments);
    return BERTH_OK;
  }
  berth_stream stream;
  TRY(library_stream(lib, a->device, &stream));
  lib->kernels.launch(element, &arguments, bytes, rows * columns, stream.native);
  return BERTH_OK;
}

berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum) {
  if (a->rows != b->rows || a->columns != b->columns) return refuse("add: the shapes differ");
  return run(lib, "add", add, a, b, a->rows, a->columns, sum);
}

berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product) {
  if (a->columns != b->rows) return refuse("multiply: the inner sizes differ");
  return run(lib, "multiply", multiply, a, b, a->rows, b->columns, product);
}

static berth_status move_all(library* lib, tensor* const* tensors, tensor* moved,
                             berth_copy_range* ranges, size_t count, berth_device device) {
  berth_stream streams[2];
  berth_transfer* transfer = NULL;
  TRY(streams_between(lib, device, tensors[0]->device, streams));
  for (size_t index = 0; index < count; ++index) {
    const tensor* const t = tensors[index];
    TRY(tensor_new(lib, t->rows, t->columns, device, 0, &moved[index]));
    ranges[index] = (berth_copy_range){moved[index].data, t->data, tensor_bytes(t)};
  }
  TRY(berth_transfer_start_batch_between(lib->runtime, ranges, count, streams[0], streams[1], NULL,
                                         &transfer));
  const berth_status status = berth_transfer_wait(transfer);
  berth_transfer_release(transfer);
  return status;
}

berth_status module_to(library* lib, tensor* const* tensors, size_t count, berth_device device) {
  TRY(berth_device_resolve(lib->runtime, device, &device));
  if (count == 0 || is_same(tensors[0]->device, device)) return BERTH_OK;
  tensor* const moved = calloc(count, sizeof *moved);
  berth_copy_range* const ranges = calloc(count, sizeof *ranges);
  const berth_status status = moved == NULL || ranges == NULL
                                  ? refuse("module_to: the host has no memory")
                                  : move_all(lib, tensors, moved, ranges, count, device);
  for (size_t index = 0; moved != NULL && index < count; ++index) {
    if (status == BERTH_OK) {
      tensor_free(tensors[index]);
      *tensors[index] = moved[index];
    } else {
      tensor_free(&moved[index]);
    }
  }
  free(moved);
  free(ranges);
  return status;
}
