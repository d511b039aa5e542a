/* SPDX-License-Identifier: Apache-2.0 */
// Pools of other libraries' handles. handle_pool.hpp has the rules of workspaces, captures, streams
// and lifetimes, which apply here too.
#ifndef BERTH_HANDLE_POOL_H
#define BERTH_HANDLE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Flags of berth_handle_pool_options. Without BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY, work of a
/// handle may use device memory that the library keeps in it: a stream to which a handle moves
/// waits for the work of its previous lease, and captured streams are refused.
enum {
  BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY = 1,
  BERTH_HANDLES_WAIT_FOR_OTHERS = 2  ///< at handles_max, wait until a handle is returned
};

/// The functions and properties of a library. Each function returns 0, or its library's code for a
/// failure, which berth_handle_pool_acquire() reports as BERTH_CALLBACK_FAILED. They are called
/// without a lock, with the primary context of the handle's device current, on any thread, and
/// several concurrently for different handles. They must not throw or leave by longjmp().
typedef struct berth_handle_pool_options {
  size_t struct_size;
  const char* name;  ///< the library's name in errors; read only during berth_handle_pool_create()
  /// Creates a handle.
  int (*create)(void* user, void** handle);
  /// Destroys a handle; the library must wait for its pending work. Null: handles are abandoned. A
  /// failure goes to the report function.
  int (*destroy)(void* user, void* handle);
  /// Makes the handle submit to `stream` from now on.
  int (*bind)(void* user, void* handle, berth_stream stream);
  /// Gives the handle `bytes` of device memory to work in, after each bind(). Null together with
  /// workspace_bytes of 0: no workspace.
  int (*set_workspace)(void* user, void* handle, void* workspace, size_t bytes);
  void* user;  ///< passed to each function; may be null
  size_t workspace_bytes;
  uint64_t flags;      ///< BERTH_HANDLES_ bits; an unknown bit is an error
  size_t handles_max;  ///< of one device; 0: no bound
} berth_handle_pool_options;

#define BERTH_HANDLE_POOL_OPTIONS_INIT \
  { sizeof(berth_handle_pool_options), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/// A pool of the handles of one library, on all devices of a runtime.
typedef struct berth_handle_pool berth_handle_pool;
/// A lease of a handle, bound to a stream.
typedef struct berth_handle_lease berth_handle_lease;

/// Makes no driver call and no library call.
/// Errors  BERTH_INVALID_ARGUMENT: an option out of range.
BERTH_API berth_status berth_handle_pool_create(berth_runtime* runtime,
                                                const berth_handle_pool_options* options,
                                                berth_handle_pool** pool);
/// Destroys idle handles and the pool, whose leases must have ended. Null: no effect.
BERTH_API void berth_handle_pool_destroy(berth_handle_pool* pool);

/// Leases a handle that is bound to `stream`, and writes the lease and the handle.
/// Blocking  Waits for other threads only with BERTH_HANDLES_WAIT_FOR_OTHERS.
/// Errors    BERTH_EXHAUSTED: handles_max. BERTH_STREAM_CAPTURED: a captured stream, without
///           BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY. BERTH_CALLBACK_FAILED: a function of the library.
///           BERTH_OUT_OF_MEMORY, BERTH_DRIVER_ERROR. BERTH_INVALID_ARGUMENT: a stream of another
///           runtime, or the per-thread default stream.
BERTH_API berth_status berth_handle_pool_acquire(berth_handle_pool* pool, berth_stream stream,
                                                 berth_handle_lease** lease, void** handle);
/// Returns the handle to its pool; work may be pending. Null: no effect.
BERTH_API void berth_handle_lease_release(berth_handle_lease* lease);

/// Destroys idle handles with their workspaces, and writes the number of handles destroyed.
BERTH_API berth_status berth_handle_pool_trim(berth_handle_pool* pool, size_t* destroyed);
/// Must be called before a stream of berth_stream_from_native() is destroyed.
BERTH_API berth_status berth_handle_pool_retire_stream(berth_handle_pool* pool,
                                                       berth_stream stream);

/// Counters over all devices.
typedef struct berth_handle_counters {
  size_t struct_size;
  uint64_t created;  ///< handles that create() has made so far
  uint64_t binds;    ///< calls of bind() that succeeded, and set_workspace() with them
  uint64_t live;     ///< handles that exist
  uint64_t idle;     ///< existing handles that are not on lease
} berth_handle_counters;

#define BERTH_HANDLE_COUNTERS_INIT \
  { sizeof(berth_handle_counters), 0, 0, 0, 0 }

BERTH_API berth_status berth_handle_pool_get_counters(berth_handle_pool* pool,
                                                      berth_handle_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
