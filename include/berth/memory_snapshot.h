/* SPDX-License-Identifier: Apache-2.0 */
// The state of one allocator at one moment, block by block.
#ifndef BERTH_MEMORY_SNAPSHOT_H
#define BERTH_MEMORY_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "berth/allocator.h"
#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A snapshot. It needs neither its runtime nor its allocator. Safe from any thread, as long as it
/// is released once.
typedef struct berth_memory_snapshot berth_memory_snapshot;

/// Copies the state of every block. Other calls of the allocator wait meanwhile.
BERTH_API berth_status berth_memory_snapshot_take(berth_allocator* allocator,
                                                  berth_memory_snapshot** snapshot);
/// Snapshots of the private pools of a device, including closed ones with live blocks, oldest
/// first. Writes up to `capacity` of them, each to be released, and the number of pools.
/// `snapshots` may be null if `capacity` is 0.
BERTH_API berth_status berth_memory_snapshot_take_pools(berth_runtime* runtime, berth_device device,
                                                        berth_memory_snapshot** snapshots,
                                                        size_t capacity, size_t* count);
/// Null: no effect.
BERTH_API void berth_memory_snapshot_release(berth_memory_snapshot* snapshot);

typedef struct berth_memory_snapshot_info {
  size_t struct_size;
  /// "cuda:0", "cuda:0/name" for a private pool, "pinned", or "cpu"; valid as long as the snapshot
  const char* allocator;
  uint64_t segment_count;
  uint64_t largest_free_block_bytes;  ///< a measure of fragmentation
} berth_memory_snapshot_info;

#define BERTH_MEMORY_SNAPSHOT_INFO_INIT \
  { sizeof(berth_memory_snapshot_info), NULL, 0, 0 }

BERTH_API berth_status berth_memory_snapshot_get_info(berth_memory_snapshot* snapshot,
                                                      berth_memory_snapshot_info* info);
/// The counters at that moment.
BERTH_API berth_status berth_memory_snapshot_get_counters(berth_memory_snapshot* snapshot,
                                                          berth_memory_gauges* gauges,
                                                          berth_memory_totals* totals);

/// One contiguous range obtained from the driver, tiled by its blocks in address order.
typedef struct berth_segment_info {
  size_t struct_size;
  uint64_t address;
  uint64_t bytes;
  uint64_t block_count;
  int numa_node;       ///< of pinned memory: the node it was bound to; -1: none
  int write_combined;  ///< of pinned memory: 1 if it is, otherwise 0
} berth_segment_info;

#define BERTH_SEGMENT_INFO_INIT \
  { sizeof(berth_segment_info), 0, 0, 0, 0, 0 }

/// `segment` must be below segment_count; segments are in address order.
BERTH_API berth_status berth_memory_snapshot_get_segment(berth_memory_snapshot* snapshot,
                                                         size_t segment, berth_segment_info* info);

enum {
  BERTH_BLOCK_ALLOCATED = 0,  ///< in use by a caller
  BERTH_BLOCK_PENDING = 1,    ///< freed, but another stream's work may still use it
  BERTH_BLOCK_FREE = 2        ///< ready for the next request
};

/// Bits of berth_block_info.flags.
enum {
  BERTH_BLOCK_HAS_STREAM = 1,  ///< `stream` orders the block; otherwise any stream may use it now
  BERTH_BLOCK_CONTINUES = 2    ///< a further block of a stitched allocation: BlockInfo::continues
};

/// One block of a segment.
typedef struct berth_block_info {
  size_t struct_size;
  uint64_t address;
  uint64_t bytes;            ///< after rounding
  uint64_t bytes_requested;  ///< as requested; 0 if free
  uint64_t data;             ///< the caller's address: `address`, unless the allocation is stitched
  struct CUstream_st* stream;  ///< with BERTH_BLOCK_HAS_STREAM; null: the legacy default stream
  int state;                   ///< BERTH_BLOCK_ALLOCATED or a similar value
  int flags;                   ///< BERTH_BLOCK_HAS_STREAM and similar bits
} berth_block_info;

#define BERTH_BLOCK_INFO_INIT \
  { sizeof(berth_block_info), 0, 0, 0, 0, NULL, 0, 0 }

/// `segment` must be below segment_count, and `block` below its block_count.
BERTH_API berth_status berth_memory_snapshot_get_block(berth_memory_snapshot* snapshot,
                                                       size_t segment, size_t block,
                                                       berth_block_info* info);

/// Checks the sums that must agree between the counters and the blocks. One line for each
/// violation; "" if all agree.
BERTH_API berth_status berth_memory_snapshot_find_discrepancies(berth_memory_snapshot* snapshot,
                                                                char** lines);

#ifdef __cplusplus
}
#endif

#endif
