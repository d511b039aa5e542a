/* SPDX-License-Identifier: Apache-2.0 */
// The core of the tensor library in C. A function that fails returns another status than BERTH_OK,
// and berth_last_error_message() has the reason. What it should have made is empty then: all zero.
#ifndef TENSOR_H
#define TENSOR_H

#include <berth/berth.h>

#ifdef __cplusplus
extern "C" {
#endif

// A matrix, with its name in a module. The owner frees it.
typedef struct tensor {
  const char* name;
  berth_device device;
  berth_allocator* allocator;
  void* data;
  long rows, columns;
} tensor;

// A kernel computes element i of `out`. The numbers are where it runs.
typedef void kernel(long i, const tensor* a, const tensor* b, const tensor* out);
// Runs kernels on a device, and is notified of accesses by the host. simulator.cpp has one.
typedef struct kernel_runner {
  void (*launch)(kernel* element, const tensor* a, const tensor* b, const tensor* out,
                 struct CUstream_st* stream);
  void (*host_uses)(const void* data, size_t bytes, bool writes);
} kernel_runner;

enum { LIBRARY_DEVICES_MAX = 16 };
typedef struct library {
  berth_runtime* runtime;
  kernel_runner kernels;
  berth_stream streams[LIBRARY_DEVICES_MAX];  // of each device, made by its first use
} library;
berth_status library_open(library* lib, kernel_runner kernels);
void library_close(library* lib);
// The stream of operators on a device: that of a guard, or else the library's own. None on the CPU.
berth_status library_stream(library* lib, berth_device device, berth_stream* stream);

berth_status tensor_new(library* lib, long rows, long columns, berth_device device, bool pinned,
                        tensor* made);
void tensor_free(tensor* t);
size_t tensor_bytes(const tensor* t);
// The numbers of a tensor on the CPU, which the host reads or writes now; null on a device.
float* tensor_numbers(library* lib, const tensor* t, bool writes);
// A single number may be on the CPU, wherever the other operand is.
berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum);
berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product);

// A module is an array of tensors on one device; one tensor is one, too. Copies all as one batch.
// Makes nothing if they are on `device` already.
berth_status module_copy(library* lib, const tensor* module, size_t count, berth_device device,
                         bool non_blocking, tensor* made);
// Takes the place of a module: `made`, which was allocated with calloc(). Not after a failure.
berth_status module_replace(tensor* module, size_t count, tensor* made, berth_status status);
// These replace all tensors, or none. `map`: from the device of a saved module to its new one.
berth_status module_to(library* lib, tensor* module, size_t count, berth_device device);
berth_status module_load(library* lib, tensor* module, size_t count, const char* path,
                         berth_device_map* map);
berth_status module_save(library* lib, const tensor* module, size_t count, const char* path);

#ifdef __cplusplus
}
#endif

#endif
