/* SPDX-License-Identifier: Apache-2.0 */
// Private pools of device memory, with their own name, limits and lifetime.
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

/// A flag of berth_memory_pool_options: for memory that CUDA graphs use. A captured stream can
/// allocate, and every address keeps its memory until the pool is closed.
#define BERTH_MEMORY_POOL_FOR_GRAPHS UINT64_C(1)
/// A flag of berth_memory_pool_options, for blocks that other processes (berth_memory_connection),
/// network cards or resident kernels use: each block lies in one physical allocation, which stays
/// at its address. Free memory in separate allocations is not stitched, and the pool cannot sleep.
#define BERTH_MEMORY_POOL_CONTIGUOUS UINT64_C(2)
/// A flag of berth_memory_pool_options, only with BERTH_MEMORY_POOL_CONTIGUOUS: physical memory can
/// have fabric handles, by which other machines of a multi-node NVLink domain import it.
#define BERTH_MEMORY_POOL_FABRIC UINT64_C(4)

/// Options of a pool.
typedef struct berth_memory_pool_options {
  size_t struct_size;
  const char* name;                ///< 1 to 64 printable characters; read only during the call
  uint64_t flags;                  ///< BERTH_MEMORY_POOL_ bits; an unknown bit is an error
  size_t bytes_reserved_max;       ///< 0: no limit but the device's limits
  size_t bytes_reserved_soft_max;  ///< 0: none
} berth_memory_pool_options;

#define BERTH_MEMORY_POOL_OPTIONS_INIT \
  { sizeof(berth_memory_pool_options), NULL, 0, 0, 0 }

/// A private pool.
typedef struct berth_memory_pool berth_memory_pool;

/// Creates a private pool of a device's memory.
/// Blocking  Returns the free memory of closed pools, and waits for the work that used it.
/// Errors    BERTH_INVALID_ARGUMENT: a name or a flag that is not accepted. BERTH_NOT_SUPPORTED:
///           BERTH_MEMORY_POOL_FABRIC, and the device has no fabric handles. BERTH_DRIVER_ERROR: no
///           address space.
BERTH_API berth_status berth_memory_pool_create(berth_runtime* runtime, berth_device device,
                                                const berth_memory_pool_options* options,
                                                berth_memory_pool** pool);
/// Closes a pool, whose allocator must not be used afterwards. Live blocks stay valid, and must be
/// freed through the device's allocator from now on. Null: no effect.
BERTH_API void berth_memory_pool_close(berth_memory_pool* pool);

/// The allocator of the pool, to be used like that of a device. It is part of the pool: every call
/// returns the same handle, and it is not released.
BERTH_API berth_status berth_memory_pool_get_allocator(berth_memory_pool* pool,
                                                       berth_allocator** allocator);
/// The name with the device: "cuda:0/weights". Valid until the pool is closed.
BERTH_API berth_status berth_memory_pool_get_name(berth_memory_pool* pool, const char** name);

/// Returns all physical memory of the pool to the driver, including the memory of live blocks;
/// addresses stay valid. `keep_content`: whether the content is copied to host memory, and back by
/// berth_memory_pool_wake(). 0 bytes if the pool is asleep.
/// Blocking  Waits for all work of the device and for the copy of the content, as the C++ function.
/// Errors    BERTH_NOT_SUPPORTED: without virtual memory, or a contiguous pool.
///           BERTH_OUT_OF_MEMORY: the host has no memory for the content. BERTH_DRIVER_ERROR. The
///           pool is then awake and unchanged. BERTH_DRIVER_ERROR, and the pool is asleep: the
///           driver has refused to take back some memory, which stays reserved until
///           berth_allocator_trim() returns it.
BERTH_API berth_status berth_memory_pool_sleep(berth_memory_pool* pool, bool keep_content,
                                               size_t* bytes_released);
/// Obtains the same amount of memory again, at the same addresses. No effect if the pool is awake.
/// Errors  BERTH_OUT_OF_MEMORY, BERTH_DRIVER_ERROR: the pool is still asleep, and its content is
///         kept.
BERTH_API berth_status berth_memory_pool_wake(berth_memory_pool* pool);
BERTH_API berth_status berth_memory_pool_is_asleep(berth_memory_pool* pool, bool* is_asleep);

/// Which blocks of a pool were live at one moment. It keeps neither the pool nor memory.
typedef struct berth_pool_checkpoint berth_pool_checkpoint;

/// The blocks that are live now, for berth_memory_pool_restore().
/// Errors  BERTH_INVALID_ARGUMENT: the pool is not for graphs (BERTH_MEMORY_POOL_FOR_GRAPHS), or
///         this is a call from inside on_map or on_unmap.
BERTH_API berth_status berth_memory_pool_checkpoint(berth_memory_pool* pool,
                                                    berth_pool_checkpoint** checkpoint);
/// Null: no effect.
BERTH_API void berth_pool_checkpoint_destroy(berth_pool_checkpoint* checkpoint);

/// What has happened to a block: it was live and has ended; it had ended and is live again; it is
/// live as before.
#define BERTH_RESTORED_FREED UINT32_C(1)
#define BERTH_RESTORED_ALLOCATED UINT32_C(2)
#define BERTH_RESTORED_KEPT UINT32_C(3)
/// Called with the start of a block and a BERTH_RESTORED_ value. It must not use the pool.
typedef void (*berth_restored_block)(void* user, void* data, uint32_t what);

/// Makes exactly those blocks live that were live at the checkpoint: frees all others, and
/// allocates again those that have been freed since, at their addresses and on their streams. Then
/// calls `visit`, unless it is null, for each block: first all that have ended, then all that are
/// live again, then all others. No driver call; contents do not change; the caller orders the work,
/// also the work of other streams that have used the memory since. No other thread may allocate
/// from the pool or free its blocks meanwhile.
/// Errors  BERTH_INVALID_ARGUMENT: a checkpoint of another pool; the pool is asleep; a block that
///         would be freed was recorded for another stream or is part of a graph; memory that a
///         block needs is used by such a block that was freed; the stream of a block has been
///         destroyed. BERTH_OUT_OF_MEMORY: the host has no memory. Nothing is changed.
BERTH_API berth_status berth_memory_pool_restore(berth_memory_pool* pool,
                                                 const berth_pool_checkpoint* checkpoint,
                                                 berth_restored_block visit, void* user);

/// berth_memory_pool_sleep() and berth_memory_pool_wake() for all open pools of a device that were
/// created with `name`. The bytes are those of all of them.
/// Errors  BERTH_INVALID_ARGUMENT: no open pool of that name. Those of the two functions: if one of
///         the pools fails to fall asleep, all are awake with their content; if the driver has
///         refused to take back memory of one, all are asleep; if one fails to wake, those before
///         it are awake.
BERTH_API berth_status berth_memory_pools_sleep(berth_runtime* runtime, berth_device device,
                                                const char* name, bool keep_content,
                                                size_t* bytes_released);
BERTH_API berth_status berth_memory_pools_wake(berth_runtime* runtime, berth_device device,
                                               const char* name);

/// Routes requests of the device's allocator to the pool, from its creation until
/// berth_memory_pool_scope_leave(). If several scopes cover a request, the most recently created
/// one applies.
typedef struct berth_memory_pool_scope berth_memory_pool_scope;

/// Covers requests of the calling thread.
BERTH_API berth_status berth_memory_pool_scope_enter(berth_memory_pool* pool,
                                                     berth_memory_pool_scope** scope);
/// Covers requests on `stream` from all threads.
BERTH_API berth_status berth_memory_pool_scope_enter_stream(berth_memory_pool* pool,
                                                            berth_stream stream,
                                                            berth_memory_pool_scope** scope);
/// May be called on any thread, in any order. Null: no effect.
BERTH_API void berth_memory_pool_scope_leave(berth_memory_pool_scope* scope);

#ifdef __cplusplus
}
#endif

#endif
