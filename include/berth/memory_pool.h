/* SPDX-License-Identifier: Apache-2.0 */
// Private pools of device memory: with a name, limits and a lifetime of their own.
#ifndef BERTH_MEMORY_POOL_H
#define BERTH_MEMORY_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/allocator.h"
#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A flag of berth_memory_pool_options: for memory that CUDA graphs use. A stream that is being
/// captured can allocate, and every address keeps its memory until the pool is closed.
#define BERTH_MEMORY_POOL_FOR_GRAPHS UINT64_C(1)

typedef struct berth_memory_pool_options {
  size_t struct_size;
  const char* name;                ///< 1 to 64 printable characters; read during the call only
  uint64_t flags;                  ///< BERTH_MEMORY_POOL_ bits; an unknown bit is an error
  size_t reserved_bytes_max;       ///< 0: as much as the device's limits allow
  size_t reserved_bytes_soft_max;  ///< 0: none
} berth_memory_pool_options;

#define BERTH_MEMORY_POOL_OPTIONS_INIT \
  { sizeof(berth_memory_pool_options), NULL, 0, 0, 0 }

/// A pool is an allocator of device memory: what berth_allocator_ functions say of a device's
/// allocator holds for it.
BERTH_API berth_status berth_memory_pool_create(berth_runtime* runtime, berth_device device,
                                                const berth_memory_pool_options* options,
                                                berth_allocator** pool);
/// Blocks that are still live stay valid, and are freed through the device's allocator from now on.
/// Errors  BERTH_INVALID_ARGUMENT: not a pool.
BERTH_API berth_status berth_memory_pool_close(berth_allocator* pool);

/// Gives all physical memory of the pool back, that of live blocks too; addresses stay.
/// `keep_content`: whether it is copied to host memory, and back by berth_memory_pool_wake().
/// Blocking  Waits for all work of the device.
/// Errors    BERTH_NOT_SUPPORTED: without virtual memory. BERTH_OUT_OF_MEMORY: the host has no room.
///           BERTH_INVALID_ARGUMENT: not a pool.
BERTH_API berth_status berth_memory_pool_sleep(berth_allocator* pool, bool keep_content,
                                               size_t* bytes_released);
/// Obtains as much memory again, at the same addresses. No operation where the pool is awake.
/// Errors  BERTH_OUT_OF_MEMORY: the pool sleeps on. BERTH_INVALID_ARGUMENT: not a pool.
BERTH_API berth_status berth_memory_pool_wake(berth_allocator* pool);

/// While it exists, the device's allocator serves certain requests from the pool.
typedef struct berth_memory_pool_scope berth_memory_pool_scope;

/// For requests of the calling thread.
BERTH_API berth_status berth_memory_pool_scope_enter(berth_allocator* pool,
                                                     berth_memory_pool_scope** scope);
/// For requests on `stream`, of all threads.
BERTH_API berth_status berth_memory_pool_scope_enter_stream(berth_allocator* pool,
                                                            berth_stream stream,
                                                            berth_memory_pool_scope** scope);
/// On any thread, in any order. Null is no operation.
BERTH_API void berth_memory_pool_scope_leave(berth_memory_pool_scope* scope);

#ifdef __cplusplus
}
#endif

#endif
