/* SPDX-License-Identifier: Apache-2.0 */
// The core of the tensor library in C. A function that fails returns another status than BERTH_OK,
// and berth_last_error_message() has the reason.
#ifndef TENSOR_H
#define TENSOR_H

#include <berth/berth.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a kernel gets, and a kernel: it computes element i of `out`.
typedef struct kernel_arguments {
  const float* in[2];
  float* out;
  long size[2];
} kernel_arguments;
typedef void kernel(long i, const kernel_arguments* arguments);

// What runs kernels on a device, and is told of memory that the host uses. simulator.cpp has one.
typedef struct kernel_runner {
  void (*launch)(kernel* element, const kernel_arguments* arguments, const size_t bytes[3],
                 long count, struct CUstream_st* stream);
  void (*host_uses)(const void* data, size_t bytes, int writes);
} kernel_runner;

enum { LIBRARY_DEVICES_MAX = 16 };
typedef struct library {
  berth_runtime* runtime;
  kernel_runner kernels;
  berth_stream streams[LIBRARY_DEVICES_MAX];  // of each device, made by its first use
} library;

berth_status library_open(library* lib, kernel_runner with);
void library_close(library* lib);
// The stream of operators on a device: that of a guard, or else the library's own. None on the CPU.
berth_status library_stream(library* lib, berth_device device, berth_stream* stream);

// A matrix. The owner frees it. All zero: empty.
typedef struct tensor {
  berth_device device;
  berth_allocator* allocator;
  float* data;
  long rows, columns;
} tensor;

enum { TENSOR_PINNED = 1, TENSOR_NON_BLOCKING = 2 };
berth_status tensor_new(library* lib, long rows, long columns, berth_device device, int flags,
                        tensor* made);
void tensor_free(tensor* t);
size_t tensor_bytes(const tensor* t);
// The numbers of a tensor on the CPU, which the host reads or writes now; null on a device.
float* tensor_numbers(library* lib, const tensor* t, int writes);
// The same numbers on `device`. Empty `moved` if `t` is there already.
berth_status tensor_to(library* lib, const tensor* t, berth_device device, int flags,
                       tensor* moved);
berth_status tensor_add(library* lib, const tensor* a, const tensor* b, tensor* sum);
berth_status tensor_multiply(library* lib, const tensor* a, const tensor* b, tensor* product);

// A module is a list of tensors. Moves it as one batch; all must be on one device.
berth_status module_to(library* lib, tensor* const* tensors, size_t count, berth_device device);

#ifdef __cplusplus
}
#endif

#endif
