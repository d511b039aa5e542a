/* SPDX-License-Identifier: Apache-2.0 */
// The allocators: of each device's memory, of pinned host memory, and of `cpu`.
#ifndef BERTH_ALLOCATOR_H
#define BERTH_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/memory_counters.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// One device's allocator, the pinned one, or that of `cpu`. Part of its runtime: there is nothing to
/// give back, and every call gives the same handle. What only one of the kinds can do is
/// BERTH_INVALID_ARGUMENT for the others.
typedef struct berth_allocator berth_allocator;

BERTH_API berth_status berth_allocator_get_device(berth_runtime* runtime, berth_device device,
                                                  berth_allocator** allocator);
BERTH_API berth_status berth_allocator_get_pinned(berth_runtime* runtime,
                                                  berth_allocator** allocator);
/// Of `cpu`: HostAllocator in C++, whose header has what differs from the other two: nothing is cached,
/// and it works in a forked child.
BERTH_API berth_status berth_allocator_get_host(berth_runtime* runtime,
                                                berth_allocator** allocator);

/// Device memory that is ordered on `stream`: work submitted to it from now on may use the memory,
/// whose content is undefined. 0 bytes gives null. For a device's allocator only.
/// Blocking  A block cached for the stream: no driver call. Otherwise the out-of-memory ladder, whose
///           last rungs wait for the GPU.
/// Errors    BERTH_INVALID_ARGUMENT: a stream of another device. BERTH_OUT_OF_MEMORY: every rung was
///           tried, and the message has the numbers; a caller that probes carries on.
///           BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_allocate(berth_allocator* allocator, size_t bytes,
                                                berth_stream stream, void** data);
/// Page-locked host memory, visible to every device and ordered on no stream. 0 bytes gives null.
/// For the pinned allocator only.
/// Blocking  A cached block: no driver call. Otherwise pinning, at 1 to 10 GB/s.
/// Errors    BERTH_NOT_SUPPORTED: there are no CUDA devices. BERTH_OUT_OF_MEMORY.
///           BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_allocate_pinned(berth_allocator* allocator, size_t bytes,
                                                       void** data);
/// Pins memory of the caller's own until berth_allocator_unregister_pinned(): it may be copied from and to
/// like a block. 0 bytes is no operation. Registered memory does not count as reserved. For the pinned
/// allocator only.
/// Blocking  Pinning, at 1 to 10 GB/s.
/// Errors    BERTH_INVALID_ARGUMENT: null; a range that wraps around, is no memory of this process, or
///           touches pinned memory; 512 GiB or more. BERTH_OUT_OF_MEMORY. BERTH_NOT_SUPPORTED: no CUDA
///           devices, or a driver that does not register such memory. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_register_pinned(berth_allocator* allocator, void* data,
                                                       size_t bytes);
/// Ends the registration that starts at `data`. Null `data` is no operation.
/// Blocking  Waits for the work of streams that were recorded on it.
/// Errors    BERTH_INVALID_ARGUMENT: no registration starts there. BERTH_DRIVER_ERROR: it is still
///           there.
BERTH_API berth_status berth_allocator_unregister_pinned(berth_allocator* allocator, void* data);
/// Ordinary, pageable host memory, aligned to 64 B and ordered on no stream. 0 bytes gives null. For
/// the allocator of `cpu` only.
/// Errors  BERTH_OUT_OF_MEMORY.
BERTH_API berth_status berth_allocator_allocate_host(berth_allocator* allocator, size_t bytes,
                                                     void** data);

/// Frees a block that this allocator gave out, in the order of its stream. Null `data` is no
/// operation.
/// Blocking  Never waits for the GPU.
/// Errors    BERTH_INVALID_ARGUMENT: a foreign pointer, one inside a block, or one freed before.
///           Nothing is changed.
BERTH_API berth_status berth_allocator_deallocate(berth_allocator* allocator, void* data);
/// Declares that work submitted to `stream` uses the block at `data`: once freed, the block is not
/// reused before that work is done. A stream of berth_stream_from_native() is told to
/// berth_allocator_retire_stream() before it is destroyed.
/// Errors  BERTH_INVALID_ARGUMENT: not a live block, or a stream of another device.
///         BERTH_DRIVER_ERROR: no event was recorded for blocks freed before; this block is recorded.
BERTH_API berth_status berth_allocator_record_stream(berth_allocator* allocator, void* data,
                                                     berth_stream stream);
/// Declares that work which `stream` holds now uses the block at `data`, and later work does not:
/// once freed, the block is not reused before that work is done, whatever was submitted since.
/// While `stream` is being captured, this is berth_allocator_record_stream().
/// Errors  BERTH_INVALID_ARGUMENT: not a live block, a stream of another device, or the per-thread
///         default stream. BERTH_DRIVER_ERROR: no event was recorded. Nothing is changed.
BERTH_API berth_status berth_allocator_record_use(berth_allocator* allocator, void* data,
                                                  berth_stream stream);
/// Gives cached memory back to the driver until at most `bytes_to_keep` are reserved, as far as
/// blocks in use allow; 0 gives back all that can be.
/// Blocking  Waits for the work of streams whose cached memory it returns; until the device is idle,
///           where that does not do and memory awaits a stream of berth_stream_from_native() that
///           cannot be asked.
BERTH_API berth_status berth_allocator_trim(berth_allocator* allocator, size_t bytes_to_keep,
                                            size_t* bytes_released);
/// Gives back what was not needed for `age_ns`: as much as is reserved beyond the most that was
/// active at one time since then. To be called from time to time: the first call only begins to watch,
/// unless `age_ns` is 0, which is all that is cached and idle.
/// Blocking  Never waits for the GPU.
BERTH_API berth_status berth_allocator_release_unused(berth_allocator* allocator, uint64_t age_ns,
                                                      size_t* bytes_released);
/// Called before a stream that blocks were allocated or recorded on is destroyed by anything but
/// berth: memory cached for it becomes available to other streams behind its work, and a later stream
/// that gets its handle is not taken for it. On a device's allocator or a pool: for whatever has
/// memory or libraries' handles in the runtime; on the others for themselves. Live blocks stay valid.
BERTH_API berth_status berth_allocator_retire_stream(berth_allocator* allocator,
                                                     berth_stream stream);

/// For berth_allocator_set_limits(): no limit but what the device has.
#define BERTH_NO_LIMIT SIZE_MAX

/// Bytes that the device's memory may reserve from now on: at most, and while cached memory can be
/// given back instead without waiting. 0 is a limit too. Memory already reserved beyond them stays
/// until it is trimmed. For a device's allocator only.
BERTH_API berth_status berth_allocator_set_limits(berth_allocator* allocator,
                                                  size_t reserved_bytes_max,
                                                  size_t reserved_bytes_soft_max);
/// Whether `data` points into memory of this allocator, live or not; null never does. No driver
/// call. For a device's allocator only.
BERTH_API berth_status berth_allocator_owns(berth_allocator* allocator, const void* data,
                                            bool* owns);
/// The start of the live block or registration that `data` points into, at its start or inside; null
/// where there is none, and for null. For the pinned allocator only.
BERTH_API berth_status berth_allocator_find_pinned(berth_allocator* allocator, const void* data,
                                                   void** block);

/// A level: its value now, and the highest since the last reset.
typedef struct berth_gauge {
  uint64_t current;
  uint64_t peak;
} berth_gauge;

// What each field counts stands in memory_counters.h. Gauges and totals are two structs, so that
// both lists can grow at their ends.
#define BERTH_FIELD_(name, help) berth_gauge name;
typedef struct berth_memory_gauges {
  size_t struct_size;
  BERTH_MEMORY_GAUGES(BERTH_FIELD_)
} berth_memory_gauges;
#undef BERTH_FIELD_

#define BERTH_FIELD_(name, help) uint64_t name;
typedef struct berth_memory_totals {
  size_t struct_size;
  BERTH_MEMORY_TOTALS(BERTH_FIELD_)
} berth_memory_totals;
#undef BERTH_FIELD_

// clang-format off
#define BERTH_ZERO_GAUGE_(name, help) , {0, 0}
#define BERTH_ZERO_TOTAL_(name, help) , 0
#define BERTH_MEMORY_GAUGES_INIT {sizeof(berth_memory_gauges) BERTH_MEMORY_GAUGES(BERTH_ZERO_GAUGE_)}
#define BERTH_MEMORY_TOTALS_INIT {sizeof(berth_memory_totals) BERTH_MEMORY_TOTALS(BERTH_ZERO_TOTAL_)}
// clang-format on

/// Both from one reading.
BERTH_API berth_status berth_allocator_get_counters(berth_allocator* allocator,
                                                    berth_memory_gauges* gauges,
                                                    berth_memory_totals* totals);
/// Sets every gauge's peak to its current value.
BERTH_API berth_status berth_allocator_reset_peaks(berth_allocator* allocator);
/// Checks every invariant and stops the process at the first that is broken. For tests and
/// debugging: walks every block.
BERTH_API berth_status berth_allocator_validate(berth_allocator* allocator);

#ifdef __cplusplus
}
#endif

#endif
