/* SPDX-License-Identifier: Apache-2.0 */
// A backend of the program: the devices of a type as functions in C. device_backend.hpp has the
// rules of order, threads and lifetimes, which apply here too.
#ifndef BERTH_BACKEND_FUNCTIONS_H
#define BERTH_BACKEND_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "berth/device_backend.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An operation that a backend has started. The backend ends each of them once.
typedef struct berth_backend_operation berth_backend_operation;

/// Ends an operation, on any thread, possibly before the function that started it returns. From
/// here on the backend uses no host memory for it. `status`: BERTH_OK, or the status of the
/// failure. `message`: the reason of the failure; null: none. Null `operation`: no effect.
BERTH_API void berth_backend_operation_end(berth_backend_operation* operation, berth_status status,
                                           const char* message);

/// One fact about a device or a backend: a text, or an integer if `text` is null.
typedef struct berth_backend_attribute {
  const char* name;
  const char* text;
  int64_t integer;
} berth_backend_attribute;

/// Properties of a device. All null and UINT64_MAX: nothing is known. berth copies the texts before
/// it calls another function.
typedef struct berth_backend_description {
  size_t struct_size;
  const char* name;       ///< for people
  const char* kind;       ///< the model
  uint64_t memory_bytes;  ///< UINT64_MAX: unknown
  const berth_backend_attribute* attributes;
  size_t attribute_count;
} berth_backend_description;

/// The functions of a backend. Each receives `user`, and the number of a device, from 0 to `count`,
/// exclusive. A function that fails returns another status than BERTH_OK and has no effect; its
/// reason is the message of its last berth_last_error_set(). An operation ends only if the function
/// that starts it returns BERTH_OK. Sizes are in bytes and never 0. "Optional" functions may be
/// null.
/// Threads  Functions are called from several threads concurrently, and must not throw or leave by
///          longjmp().
typedef struct berth_backend_functions {
  size_t struct_size;
  void* user;
  const char* name;  ///< the implementation and its version; read only by berth_backend_register()
  int64_t count;     ///< number of devices
  /// Optional. `description` is initialized to "unknown": texts and attributes are null, and
  /// memory_bytes is UINT64_MAX.
  berth_status (*describe)(void* user, int index, berth_backend_description* description);
  /// Optional. Each field of `memory` is initialized to UINT64_MAX: not reported.
  berth_status (*get_memory)(void* user, int index, berth_backend_memory* memory);
  /// Creates a buffer, which is not null, and starts to fill it with `content`.
  berth_status (*create_buffer)(void* user, int index, const void* content, size_t bytes,
                                berth_backend_operation* operation, void** buffer);
  /// Starts to read [offset, offset + bytes) of a buffer into `target`.
  berth_status (*read)(void* user, void* buffer, size_t offset, void* target, size_t bytes,
                       berth_backend_operation* operation);
  /// Creates a buffer on a device, which is not null, and starts to fill it with the content of
  /// `source`, a buffer of the same backend.
  berth_status (*copy)(void* user, void* source, int index, berth_backend_operation* operation,
                       void** buffer);
  /// Frees a buffer, while operations on it may be pending.
  void (*free_buffer)(void* user, void* buffer);
  /// Optional: creates a buffer that is then written in parts. Leaves both outputs null if the
  /// backend cannot do that, and otherwise writes both.
  berth_status (*begin_buffer)(void* user, int index, size_t bytes, void** buffer, void** filling);
  /// With begin_buffer(): starts to write one part. Parts do not overlap, and together are the
  /// whole buffer. `is_last` is 1 for the last one, otherwise 0.
  berth_status (*write)(void* user, void* filling, size_t offset, const void* content, size_t bytes,
                        int is_last, berth_backend_operation* operation);
  /// With begin_buffer(): frees a filling, after the last write, or before it if the filling has
  /// failed. Writes may be pending, which the backend still ends.
  void (*free_filling)(void* user, void* filling);
  /// Optional: prepares host memory for transfers by all devices of the backend. Operations that
  /// began before this returns have no part in the mapping: they may be pending when it ends.
  berth_status (*map_host_memory)(void* user, void* data, size_t bytes);
  /// With map_host_memory(): ends the mapping that starts at `data`. No operation that uses the
  /// mapping is pending, and none begins on the memory before this returns: so this must not wait
  /// for a call that begins one.
  berth_status (*unmap_host_memory)(void* user, void* data);
  /// Optional. Called at the end of the runtime, after all other functions.
  void (*destroy)(void* user);
  /// Optional. Whether read() reads a part of a buffer at the cost of that part, as far as is
  /// known: 1, which is also the meaning of null, or 0. For 0, a buffer is read once, and whole,
  /// for a file, and a copy with berth_transfer_options.part_bytes is one read; if 0 follows 1
  /// while such a copy goes on, its rest is one read. Asked on the thread that starts a copy, and
  /// on berth threads before each part. Returns immediately.
  int (*reads_parts)(void* user);
  /// Optional. Facts about the implementation, such as the version of its interface. Called only by
  /// berth_backend_register(), which copies the texts. When the function is called, there are none:
  /// null and 0.
  berth_status (*get_attributes)(void* user, const berth_backend_attribute** attributes,
                                 size_t* attribute_count);
} berth_backend_functions;

#define BERTH_BACKEND_FUNCTIONS_INIT                                                          \
  {                                                                                           \
    sizeof(berth_backend_functions), NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL                                              \
  }

/// Makes the functions the backend of a type, until the end of the runtime.
/// Errors  BERTH_INVALID_ARGUMENT: a function that is missing; "cpu" or "cuda"; a type that has a
///         backend; a number of devices that is negative or too high; an attribute without a name.
///         The status of describe() and get_attributes(). destroy() is not called then.
BERTH_API berth_status berth_backend_register(berth_runtime* runtime, const char* type,
                                              const berth_backend_functions* functions);

#ifdef __cplusplus
}
#endif

#endif
