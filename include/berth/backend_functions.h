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

/// Ends an operation, on any thread, possibly before the function that started it returns: from
/// here on the backend uses no host memory for it. `status`: BERTH_OK, or that of the failure,
/// whose reason is `message`; null: none. Null `operation`: no effect.
BERTH_API void berth_backend_operation_end(berth_backend_operation* operation, berth_status status,
                                           const char* message);

/// One fact about a device: a text, or an integer if `text` is null.
typedef struct berth_backend_attribute {
  const char* name;
  const char* text;
  int64_t integer;
} berth_backend_attribute;

/// Properties of a device. All null and UINT64_MAX: nothing is known. Read before the next call.
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
/// reason is what it gave berth_last_error_set() last. A function that starts an operation ends it
/// only if it returns BERTH_OK. Sizes are in bytes and never 0. Functions are called from several
/// threads at once, and must not throw or leave by longjmp().
///
/// "Optional" functions may be null.
typedef struct berth_backend_functions {
  size_t struct_size;
  void* user;
  const char* name;  ///< the implementation and its version; read only by berth_backend_register()
  int64_t count;     ///< number of devices
  /// Optional. The description has BERTH's defaults when the function is called.
  berth_status (*describe)(void* user, int index, berth_backend_description* description);
  /// Optional.
  berth_status (*get_memory)(void* user, int index, berth_backend_memory* memory);
  /// Creates a buffer, which is not null, and starts to fill it with `content`.
  berth_status (*create_buffer)(void* user, int index, const void* content, size_t bytes,
                                berth_backend_operation* operation, void** buffer);
  /// Starts to read [offset, offset + bytes) of a buffer into `target`.
  berth_status (*read)(void* user, void* buffer, size_t offset, void* target, size_t bytes,
                       berth_backend_operation* operation);
  /// Creates a buffer on a device, which is not null, and starts to fill it with that of `source`.
  berth_status (*copy)(void* user, void* source, int index, berth_backend_operation* operation,
                       void** buffer);
  /// Frees a buffer, while operations on it may be pending.
  void (*free_buffer)(void* user, void* buffer);
  /// Optional: creates a buffer that is then written in parts. Both or none of the outputs are
  /// null; none: the backend cannot do it.
  berth_status (*begin_buffer)(void* user, int index, size_t bytes, void** buffer, void** filling);
  /// With begin_buffer(): starts to write one part. `is_last` is 1 for the last one, otherwise 0.
  berth_status (*write)(void* user, void* filling, size_t offset, const void* content, size_t bytes,
                        int is_last, berth_backend_operation* operation);
  /// With begin_buffer(). Before the last write: the filling has failed. Writes may be pending,
  /// which the backend still ends.
  void (*free_filling)(void* user, void* filling);
  /// Optional.
  berth_status (*map_host_memory)(void* user, void* data, size_t bytes);
  /// With map_host_memory().
  berth_status (*unmap_host_memory)(void* user, void* data);
  /// Optional. Called at the end of the runtime, after all other functions.
  void (*destroy)(void* user);
} berth_backend_functions;

#define BERTH_BACKEND_FUNCTIONS_INIT                                                          \
  {                                                                                           \
    sizeof(berth_backend_functions), NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL                                                          \
  }

/// Makes the functions the backend of a type, until the end of the runtime.
/// Errors  BERTH_INVALID_ARGUMENT: a function that is missing; "cpu" or "cuda"; a type that has a
///         backend; a number of devices that is negative or too high. The status of describe().
///         destroy() is not called then.
BERTH_API berth_status berth_backend_register(berth_runtime* runtime, const char* type,
                                              const berth_backend_functions* functions);

#ifdef __cplusplus
}
#endif

#endif
