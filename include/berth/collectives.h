/* SPDX-License-Identifier: Apache-2.0 */
// Scatter, gather and broadcast of a buffer over several devices in one process.
#ifndef BERTH_COLLECTIVES_H
#define BERTH_COLLECTIVES_H

#include <stddef.h>

#include "berth/completion_queue.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"
#include "berth/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// One part of a collective copy. Device memory needs a stream of its device, host memory a stream
/// of the device on the other side.
typedef struct berth_shard {
  void* data;    ///< may be null if `bytes` is 0
  size_t bytes;  ///< 0: this part is empty
  berth_stream stream;
} berth_shard;

// Each call starts after the work that all the streams hold, and returns immediately, as
// berth_transfer_start() does. Work submitted later to the stream of the whole buffer runs after
// the complete call. Work submitted later to a shard's stream runs after all uses of that shard.
// `options` and `transfer` are those of berth_transfer_start(). `shards` has `count` elements, 1 or
// more, and is read only during the call.
//
// Errors  BERTH_INVALID_ARGUMENT: no shards, null, ranges that overlap or wrap around, sizes that
//         do not add up, a stream of another device than the memory, host memory on both sides, or
//         managed memory. BERTH_STREAM_CAPTURED: one of the streams is captured; the capture
//         continues. Nothing is submitted then. BERTH_OUT_OF_MEMORY, BERTH_EXHAUSTED,
//         BERTH_DRIVER_ERROR: submitted work is over, nothing more is written, and the content of
//         the targets is undefined.

/// Copies consecutive ranges of the source, which has `bytes`, to the shards.
BERTH_API berth_status berth_scatter_start(berth_runtime* runtime, const void* source, size_t bytes,
                                           berth_stream stream, const berth_shard* shards,
                                           size_t count, const berth_transfer_options* options,
                                           berth_transfer** transfer);
/// Copies the shards, which are only read, to consecutive ranges of the target.
BERTH_API berth_status berth_gather_start(berth_runtime* runtime, void* target, size_t bytes,
                                          berth_stream stream, const berth_shard* shards,
                                          size_t count, const berth_transfer_options* options,
                                          berth_transfer** transfer);
/// Copies the whole source to each shard, which has `bytes`; from device to device over the links
/// between them, if there are any.
BERTH_API berth_status berth_broadcast_start(berth_runtime* runtime, const void* source,
                                             size_t bytes, berth_stream stream,
                                             const berth_shard* shards, size_t count,
                                             const berth_transfer_options* options,
                                             berth_transfer** transfer);

#ifdef __cplusplus
}
#endif

#endif
