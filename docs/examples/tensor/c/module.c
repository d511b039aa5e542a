/* SPDX-License-Identifier: Apache-2.0 */
// Modules and their copies.
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

static berth_status copy_all(library* lib, const tensor* module, size_t count, berth_device device,
                             bool non_blocking, berth_copy_range* ranges, tensor* made) {
  berth_stream to, from;
  berth_transfer* transfer = NULL;
  BERTH_TRY(library_stream(lib, device, &to));
  BERTH_TRY(library_stream(lib, module->device, &from));
  for (size_t i = 0; i < count; ++i) {
    const tensor* const t = &module[i];
    BERTH_TRY(tensor_new(lib, t->rows, t->columns, device, non_blocking, &made[i]));
    made[i].name = t->name;
    ranges[i] = (berth_copy_range){made[i].data, t->data, tensor_bytes(t)};
  }
  BERTH_TRY(berth_transfer_start_batch_between(lib->runtime, ranges, count, to, from, NULL,
                                               non_blocking ? NULL : &transfer));
  return non_blocking ? BERTH_OK : berth_transfer_finish(transfer);
}

berth_status module_copy(library* lib, const tensor* module, size_t count, berth_device device,
                         bool non_blocking, tensor* made) {
  memset(made, 0, count * sizeof *made);
  BERTH_TRY(berth_device_resolve(lib->runtime, device, &device));
  if (count == 0 || berth_device_is_same(module->device, device)) return BERTH_OK;
  berth_copy_range* const ranges = calloc(count, sizeof *ranges);
  if (ranges == NULL) return berth_last_error_set(BERTH_OUT_OF_MEMORY, "no memory for a batch");
  const berth_status status = copy_all(lib, module, count, device, non_blocking, ranges, made);
  for (size_t i = 0; status != BERTH_OK && i < count; ++i) tensor_free(&made[i]);
  free(ranges);
  return status;
}

berth_status module_replace(tensor* module, size_t count, tensor* made, berth_status status) {
  for (size_t i = 0; made != NULL && i < count; ++i) {
    if (status == BERTH_OK && made[i].allocator != NULL) {
      tensor_free(&module[i]);
      module[i] = made[i];
    } else {
      tensor_free(&made[i]);
    }
  }
  free(made);
  return status;
}

berth_status module_to(library* lib, tensor* module, size_t count, berth_device device) {
  tensor* const made = calloc(count + 1, sizeof *made);
  if (made == NULL) return berth_last_error_set(BERTH_OUT_OF_MEMORY, "no memory for a module");
  return module_replace(module, count, made, module_copy(lib, module, count, device, false, made));
}
