/* SPDX-License-Identifier: Apache-2.0 */
// Modules in safetensors files: from any device, to any device.
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "tensor.h"

// Tensors with their names, which have no quotation marks.
typedef struct module {
  const char* const* names;
  tensor* const* tensors;
  size_t count;
} module;

berth_status module_save(library* lib, const module* m, const char* path);
// Replaces all tensors, or none. `map`: from the device that a tensor was saved on to the one that
// it goes to. Bytes for a device travel from the file to it.
berth_status module_load(library* lib, const module* m, const char* path, berth_device_map* map);

#endif
