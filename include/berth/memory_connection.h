/* SPDX-License-Identifier: Apache-2.0 */
// Device memory shared with another process, over a local socket.
#ifndef BERTH_MEMORY_CONNECTION_H
#define BERTH_MEMORY_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/memory_pool.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A connection over which two processes share blocks of contiguous pools
/// (BERTH_MEMORY_POOL_CONTIGUOUS), in both directions. It keeps each block that it has shared until
/// the other process has returned it, or has ended.
typedef struct berth_memory_connection berth_memory_connection;

/// Takes ownership of `socket`, a connected socket of the domain AF_UNIX and the type
/// SOCK_SEQPACKET.
/// Errors  BERTH_INVALID_ARGUMENT: another kind of descriptor. BERTH_EXHAUSTED: this process has no
///         descriptor left. The socket is not closed then.
BERTH_API berth_status berth_memory_connection_open(berth_runtime* runtime, int socket,
                                                    berth_memory_connection** connection);
/// Closes the connection, and frees the blocks that the other process has not returned. Blocks that
/// it has shared with this process stay valid. Null: no effect.
BERTH_API void berth_memory_connection_close(berth_memory_connection* connection);
/// Ends the connection as berth_memory_connection_close() does, but `connection` stays valid until
/// that call, and wakes the threads that wait in it: berth_memory_connection_receive() returns no
/// block, and berth_memory_connection_share() fails with BERTH_FILE, as do later calls. Null,
/// repeated, and in a forked child: no effect.
BERTH_API void berth_memory_connection_end(berth_memory_connection* connection);

/// Shares `count` live blocks of `pool`, in their order. The first `*shared` of them belong to the
/// connection afterwards, which frees them, also if the call fails; the others still belong to the
/// caller. Waits up to `timeout_ms` milliseconds while the queue of the other process is full.
/// Errors  BERTH_INVALID_ARGUMENT: a pool that is not contiguous; a pointer that is not the start
///         of a live block of the pool. BERTH_NOT_SUPPORTED: the device cannot export memory.
///         BERTH_EXHAUSTED: the timeout, or this process has no descriptor left. BERTH_FILE: the
///         connection has ended.
BERTH_API berth_status berth_memory_connection_share(berth_memory_connection* connection,
                                                     berth_memory_pool* pool, void* const* blocks,
                                                     size_t count, uint64_t timeout_ms,
                                                     size_t* shared);
/// Frees the blocks that the other process has returned, and all blocks if it has ended.
BERTH_API berth_status berth_memory_connection_reclaim(berth_memory_connection* connection,
                                                       size_t* freed);
/// Blocks that were shared and not freed.
BERTH_API berth_status
berth_memory_connection_get_blocks_shared(berth_memory_connection* connection, size_t* blocks);
/// Whether the other process has its end open, as far as calls have noticed.
BERTH_API berth_status berth_memory_connection_is_open(berth_memory_connection* connection,
                                                       bool* is_open);

/// A block that the other process has shared, mapped into this process.
typedef struct berth_shared_block berth_shared_block;

/// The next block that the other process has shared, in its order. Waits up to `timeout_ms`
/// milliseconds for one. Null: the timeout, or the connection has ended.
/// Errors  BERTH_NOT_SUPPORTED: the device of a block is not visible here, or cannot import.
///         BERTH_OUT_OF_MEMORY, BERTH_EXHAUSTED, BERTH_DRIVER_ERROR: the block cannot be mapped.
///         The blocks of the message are then returned, and the next call continues after them.
///         BERTH_FILE: a malformed message, which ends the connection.
BERTH_API berth_status berth_memory_connection_receive(berth_memory_connection* connection,
                                                       uint64_t timeout_ms,
                                                       berth_shared_block** block);
/// The address in this process, the size as the other process requested it, and the device as this
/// process numbers it.
BERTH_API berth_status berth_shared_block_get(const berth_shared_block* block, void** data,
                                              size_t* bytes, berth_device* device);
/// Returns the block to the other process. Null: no effect.
/// Blocking  Waits for all work of the device.
BERTH_API void berth_shared_block_return(berth_shared_block* block);

#ifdef __cplusplus
}
#endif

#endif
