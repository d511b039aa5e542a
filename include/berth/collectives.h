/* SPDX-License-Identifier: Apache-2.0 */
// Scatter, gather and broadcast of a buffer over devices, in one process.
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

/// One part of a collective copy. Device memory takes a stream of its device, host memory one of the
/// device on the other side.
typedef struct berth_shard {
  void* data;    ///< may be null where `bytes` is 0
  size_t bytes;  ///< 0: there is no such part
  berth_stream stream;
} berth_shard;

// Each begins after what all the streams hold, and returns at once, as berth_transfer_start() does. What is
// submitted later to the stream of the source, or of the target that is not a shard, finds all of it
// done; what is submitted to the stream of a shard, what uses that shard. `on_done`, `user` and
// `transfer` as for berth_transfer_start(). `shards` holds `count`, 1 or more, and is read during the
// call only.
//
// Errors  BERTH_INVALID_ARGUMENT: no shards, null, ranges that overlap or wrap around, bytes that do not
//         add up, a stream that is not of the memory's device, host memory on both sides.
//         BERTH_STREAM_CAPTURED: one of the streams is captured. BERTH_DRIVER_ERROR: what was
//         submitted is over, and nothing is written any more.

/// Consecutive ranges of the source, which has `bytes`, go to the shards.
BERTH_API berth_status berth_scatter_start(berth_runtime* runtime, const void* source, size_t bytes,
                                           berth_stream stream, const berth_shard* shards,
                                           size_t count, berth_completion_function on_done,
                                           void* user, berth_transfer** transfer);
/// The shards, which are only read, go to consecutive ranges of the target.
BERTH_API berth_status berth_gather_start(berth_runtime* runtime, void* target, size_t bytes,
                                          berth_stream stream, const berth_shard* shards,
                                          size_t count, berth_completion_function on_done,
                                          void* user, berth_transfer** transfer);
/// All of the source goes to each shard, which has `bytes`: from device to device over the links between
/// them, where there are some.
BERTH_API berth_status berth_broadcast_start(berth_runtime* runtime, const void* source,
                                             size_t bytes, berth_stream stream,
                                             const berth_shard* shards, size_t count,
                                             berth_completion_function on_done, void* user,
                                             berth_transfer** transfer);

#ifdef __cplusplus
}
#endif

#endif
