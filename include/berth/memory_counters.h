/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of allocator statistics. The C and C++ structs, text, JSON and the identities that
 * must add up all derive from it.
 *
 *   gauges   X(name, help)  a level: its current value and its peak since the last reset
 *   totals   X(name, help)  counts up since the allocator was created
 */
#ifndef BERTH_MEMORY_COUNTERS_H
#define BERTH_MEMORY_COUNTERS_H

/* clang-format off */
#define BERTH_MEMORY_GAUGES(X) \
  X(bytes_requested,           "live bytes, as requested") \
  X(bytes_allocated,           "live bytes, after rounding") \
  X(bytes_active,              "allocated, plus freed but awaiting an event") \
  X(bytes_reserved,            "obtained from the driver; cached = reserved + asleep - active") \
  X(blocks_allocated,          "live allocations") \
  X(blocks_pending,            "freed blocks that await an event") \
  X(blocks_free,               "free blocks: the number of holes") \
  X(bytes_metadata,            "host memory for the allocator's records") \
  X(bytes_asleep,              "returned by sleep(), to be obtained again by wake()") \
  X(blocks_in_graphs,          "blocks, live or pending, that captured graphs may read or write") \
  X(bytes_unreturnable,        "reserved, and in no segment: the driver refused to take them back")

#define BERTH_MEMORY_TOTALS(X) \
  X(allocations,               "allocations that succeeded") \
  X(frees,                     "frees") \
  X(allocations_grown,         "allocations that needed new memory from the driver") \
  X(frees_deferred,            "frees that had to await an event of another stream") \
  X(frees_reclaimed,           "deferred frees that no event holds up any more") \
  X(blocks_passed_on,          "free blocks of idle streams, taken over for other streams") \
  X(stream_waits_inserted,     "waits inserted so that a stream could have free blocks early") \
  X(deferred_free_waits,       "times the host waited for a deferred free, one of the last rungs") \
  X(segments_mapped,           "ranges obtained from the driver") \
  X(segments_released,         "ranges returned to the driver") \
  X(page_remaps,               "granules mapped a second time at another address") \
  X(limit_rejections,          "growths refused by a byte limit before any driver call, or for " \
                               "headroom") \
  X(out_of_memory,             "requests that failed after every rung") \
  X(allocations_last_freed,    "allocations served with the block that their thread freed last") \
  X(allocations_thread_cached, "allocations served with another block from the thread caches") \
  X(allocations_fitted,        "allocations served by best fit in the heap") \
  X(allocations_stitched,      "allocations served with free memory stitched by page remaps")
/* clang-format on */

#endif
