/* SPDX-License-Identifier: Apache-2.0 */
// The allocators of device memory, of pinned host memory, and of `cpu`.
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

/// The allocator of a device, of pinned memory, or of `cpu`. It is part of its runtime: every call
/// returns the same handle, and it is not released. A function that only one kind supports returns
/// BERTH_INVALID_ARGUMENT for the others.
typedef struct berth_allocator berth_allocator;

/// The allocator of the device's memory; of the CPU as berth_allocator_get_host().
BERTH_API berth_status berth_allocator_get_device(berth_runtime* runtime, berth_device device,
                                                  berth_allocator** allocator);
/// The allocator of pinned memory.
BERTH_API berth_status berth_allocator_get_pinned(berth_runtime* runtime,
                                                  berth_allocator** allocator);
/// The allocator of `cpu`, HostAllocator in C++. The C++ header describes its differences: nothing
/// is cached, and it works in a forked child.
BERTH_API berth_status berth_allocator_get_host(berth_runtime* runtime,
                                                berth_allocator** allocator);

/// The device whose memory the allocator manages, with its ordinal; the CPU for pinned memory and
/// for that of `cpu`.
BERTH_API berth_status berth_allocator_get_location(berth_allocator* allocator,
                                                    berth_device* device);

/// Allocates a block that work submitted to `stream` from now on may use. The content is undefined.
/// 0 bytes gives null. Device memory is ordered on `stream`. Host memory is ordered on no stream:
/// the block is recorded for it, as by berth_allocator_record_stream(), and `stream` may be none.
/// Blocking  A block cached for the stream needs no driver call. Otherwise the request takes the
///           rungs of the out-of-memory ladder, whose last rungs wait for the GPU. Host memory: as
///           the functions below.
/// Errors    BERTH_INVALID_ARGUMENT: a stream of another runtime or, for device memory, of another
///           device; the per-thread default stream.
///           BERTH_OUT_OF_MEMORY: every rung failed, and the message has the numbers.
///           BERTH_DRIVER_ERROR. The allocator is then unchanged, except that cached memory may
///           have been returned.
BERTH_API berth_status berth_allocator_allocate(berth_allocator* allocator, size_t bytes,
                                                berth_stream stream, void** data);
/// Allocates page-locked host memory that is visible to every device and ordered on no stream. 0
/// bytes gives null. Only for the pinned allocator.
/// Blocking  A cached block needs no driver call. Otherwise pinning, at 1 to 10 GB/s.
/// Errors    BERTH_NOT_SUPPORTED: there are no CUDA devices. BERTH_OUT_OF_MEMORY.
///           BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_allocate_pinned(berth_allocator* allocator, size_t bytes,
                                                       void** data);
/// The kind of pinned memory.
enum {
  BERTH_PINNED_PORTABLE = 0,
  BERTH_PINNED_WRITE_COMBINED = 1,  ///< slow to read on the host: PinnedKind in C++
  BERTH_PINNED_REGISTERED = 2       ///< the caller's own memory; cannot be allocated
};

/// A flag of berth_pinned_options: BERTH_OUT_OF_MEMORY instead of waiting for work of streams that
/// uses freed blocks.
#define BERTH_PINNED_NO_WAIT UINT32_C(1)

/// Options of one allocation of pinned memory. All 0: as berth_allocator_allocate_pinned().
typedef struct berth_pinned_options {
  size_t struct_size;
  berth_device near;  ///< memory of this device's NUMA node; CPU: of the current device's node
  int kind;           ///< BERTH_PINNED_PORTABLE or BERTH_PINNED_WRITE_COMBINED
  uint32_t flags;     ///< BERTH_PINNED_ bits; an unknown bit is an error
} berth_pinned_options;

#define BERTH_PINNED_OPTIONS_INIT \
  { sizeof(berth_pinned_options), {0, 0}, 0, 0 }

/// berth_allocator_allocate_pinned() with options.
/// Errors  BERTH_INVALID_ARGUMENT also: no such device, or a kind that cannot be allocated.
BERTH_API berth_status berth_allocator_allocate_pinned_with(berth_allocator* allocator,
                                                            size_t bytes,
                                                            const berth_pinned_options* options,
                                                            void** data);
/// Pins the caller's own memory until berth_allocator_unregister_pinned(): it can be copied like a
/// block. 0 bytes: no effect. Registered memory does not count as reserved. Only for the pinned
/// allocator.
/// Blocking  Pinning, at 1 to 10 GB/s.
/// Errors    BERTH_INVALID_ARGUMENT: null; a range that wraps around, is not memory of this
///           process, or touches pinned memory; 512 GiB or more. BERTH_OUT_OF_MEMORY.
///           BERTH_NOT_SUPPORTED: no CUDA devices, or a driver that does not register such memory.
///           BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_register_pinned(berth_allocator* allocator, void* data,
                                                       size_t bytes);
/// Ends the registration that starts at `data`. Null `data`: no effect.
/// Blocking  Waits for the work of streams that were recorded on it.
/// Errors    BERTH_INVALID_ARGUMENT: no registration starts there. BERTH_DRIVER_ERROR: the
///           registration still exists.
BERTH_API berth_status berth_allocator_unregister_pinned(berth_allocator* allocator, void* data);
/// Allocates ordinary, pageable host memory, aligned to 64 B and ordered on no stream. 0 bytes
/// gives null. Only for the allocator of `cpu`.
/// Errors  BERTH_OUT_OF_MEMORY.
BERTH_API berth_status berth_allocator_allocate_host(berth_allocator* allocator, size_t bytes,
                                                     void** data);

/// Frees a block of this allocator in the order of its stream. Null `data`: no effect.
/// Blocking  Never waits for the GPU.
/// Errors    BERTH_INVALID_ARGUMENT: a pointer that is not from this allocator, points into a
///           block, or was freed before. Nothing is changed.
BERTH_API berth_status berth_allocator_deallocate(berth_allocator* allocator, void* data);
/// Declares that work submitted to `stream` uses the block at `data`: after the free, the block is
/// not reused before that work is done. null: no effect. For a stream of
/// berth_stream_from_native(), call berth_allocator_retire_stream() before it is destroyed.
/// Errors  BERTH_INVALID_ARGUMENT: not a live block; a stream of another runtime or, for device
///         memory, of another device; the per-thread default stream. BERTH_DRIVER_ERROR: no event
///         was recorded for blocks freed before; this block is recorded.
BERTH_API berth_status berth_allocator_record_stream(berth_allocator* allocator, void* data,
                                                     berth_stream stream);
/// Declares that the work which `stream` holds now uses the block at `data`, and later work does
/// not: after the free, the block is not reused before that work is done, and work submitted later
/// does not delay its reuse. null: no effect. While `stream` is captured, this is
/// berth_allocator_keep_for_graph() for pinned memory, and berth_allocator_record_stream() for
/// other memory.
/// Errors  BERTH_INVALID_ARGUMENT: as berth_allocator_record_stream(). BERTH_DRIVER_ERROR: no event
///         was recorded. Nothing is changed.
BERTH_API berth_status berth_allocator_record_use(berth_allocator* allocator, void* data,
                                                  berth_stream stream);
/// Declares that work captured on `stream` reads or writes the block at `data`: after the free, the
/// block is not reused before the graph that is being captured and every executable graph and clone
/// made from it are destroyed, and all of their launches are done. Copies of berth do it
/// themselves. A driver before CUDA 12.3 does not report that moment: the block is then kept until
/// the runtime is destroyed. Destroy graphs before the runtime, or do not launch them afterwards.
/// Only for the pinned allocator.
/// Errors  BERTH_INVALID_ARGUMENT: not a live block of this allocator, a registration, a stream
///         that is not in a valid capture, the per-thread default stream, or a stream of another
///         runtime. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_allocator_keep_for_graph(berth_allocator* allocator, void* data,
                                                      berth_stream stream);
/// Returns cached memory to the driver until at most `bytes_to_keep` bytes are reserved, as far as
/// blocks in use permit. 0 returns all that can be returned.
/// Blocking  Waits for the work of streams whose cached memory it returns. If that does not suffice
///           and memory awaits a stream of berth_stream_from_native() that cannot be queried, waits
///           until the device is idle.
/// Errors    BERTH_DRIVER_ERROR: memory returned before stays returned, and the call can be
///           repeated.
BERTH_API berth_status berth_allocator_trim(berth_allocator* allocator, size_t bytes_to_keep,
                                            size_t* bytes_released);
/// Returns memory that was not needed for `age_ns`: the amount that is reserved beyond the most
/// that was active at one time since then. Call it periodically. The first call only starts the
/// measurement, unless `age_ns` is 0, which returns all cached memory without pending work.
/// Blocking  Never waits for the GPU.
/// Errors    As berth_allocator_trim().
BERTH_API berth_status berth_allocator_release_unused(berth_allocator* allocator, uint64_t age_ns,
                                                      size_t* bytes_released);
/// Must be called before code other than berth destroys a stream that blocks were allocated or
/// recorded on. Memory cached for the stream becomes available to other streams after its work, and
/// a later stream with the same handle counts as a new stream. On the allocator of a device or of a
/// pool, the call retires the stream for every part of the runtime that has memory or library
/// handles of it; on another allocator, only for that allocator. Live blocks stay valid.
BERTH_API berth_status berth_allocator_retire_stream(berth_allocator* allocator,
                                                     berth_stream stream);

/// For berth_allocator_set_limits(): no limit but the device's memory.
#define BERTH_NO_LIMIT SIZE_MAX

/// Sets the hard and the soft limit of a device's memory, or of a private pool, in bytes, from now
/// on. No growth exceeds `bytes_reserved_max`. Beyond `bytes_reserved_soft_max`, cached memory
/// without pending work is returned before growth. A soft limit above the hard one has no effect; 0
/// is a limit too. Memory that exceeds a new limit stays until it is trimmed. Only for the
/// allocator of a device or of a pool.
BERTH_API berth_status berth_allocator_set_limits(berth_allocator* allocator,
                                                  size_t bytes_reserved_max,
                                                  size_t bytes_reserved_soft_max);
/// Replaces the on_pressure of berth_runtime_options for this allocator and its pools; a null
/// function removes it. For a function that frees memory of the runtime: set it after creating the
/// objects that it uses, and remove it before they end. They are created after
/// berth_runtime_create() and end before the runtime. Only for the allocator of a device.
/// Blocking  Returns when no call of a former function is running on another thread. From inside
///           such a call, returns immediately.
/// Errors    BERTH_NOT_SUPPORTED: in a child made by fork().
BERTH_API berth_status berth_allocator_set_on_pressure(berth_allocator* allocator,
                                                       berth_pressure_function on_pressure,
                                                       void* user);
/// Whether `data` points into memory of this allocator, live or not; false for null. No driver
/// call. Not for the allocator of `cpu`.
BERTH_API berth_status berth_allocator_owns(berth_allocator* allocator, const void* data,
                                            bool* owns);
/// Whether `data` points into memory of an open pool for graphs, live or not; false for null. No
/// driver call. Only for the allocator of a device.
BERTH_API berth_status berth_allocator_is_for_graphs(berth_allocator* allocator, const void* data,
                                                     bool* is_for_graphs);

/// Bits of berth_memory_properties: the block is live; it lies in one physical allocation, and
/// stays there; another process can import it (berth_memory_connection); the allocation was created
/// for GPUDirect RDMA; it can have a fabric handle (BERTH_MEMORY_POOL_FABRIC).
#define BERTH_MEMORY_IS_LIVE UINT64_C(1)
#define BERTH_MEMORY_IS_CONTIGUOUS UINT64_C(2)
#define BERTH_MEMORY_IS_EXPORTABLE UINT64_C(4)
#define BERTH_MEMORY_IS_RDMA_CAPABLE UINT64_C(8)
#define BERTH_MEMORY_IS_FABRIC_EXPORTABLE UINT64_C(16)

/// Properties of a block of device memory.
typedef struct berth_memory_properties {
  size_t struct_size;
  uint64_t flags;        ///< BERTH_MEMORY_IS_ bits
  void* segment;         ///< the physical allocation; null: not contiguous, or of cuMemAlloc
  size_t segment_bytes;  ///< size of the physical allocation; 0: not contiguous, or of cuMemAlloc
} berth_memory_properties;

#define BERTH_MEMORY_PROPERTIES_INIT \
  { sizeof(berth_memory_properties), 0, NULL, 0 }

/// The properties of the live block that contains `data`; `flags` is 0 if there is none. No driver
/// call. Only for the allocator of a device or of a pool.
BERTH_API berth_status berth_allocator_get_properties(berth_allocator* allocator, const void* data,
                                                      berth_memory_properties* properties);

/// A live block.
typedef struct berth_memory_block {
  size_t struct_size;
  berth_allocator* allocator;  ///< frees the block; of a private pool: that of the device
  void* data;                  ///< the start of the block
  size_t bytes;                ///< as requested
  berth_device device;         ///< as berth_allocator_get_location()
} berth_memory_block;

#define BERTH_MEMORY_BLOCK_INIT                  \
  {                                              \
    sizeof(berth_memory_block), NULL, NULL, 0, { \
      0, 0                                       \
    }                                            \
  }

/// The live block of any allocator of the runtime that contains `data`, registered memory excepted.
/// All fields null or 0 if there is none, and for null. No driver call. For a moment, no other
/// thread allocates or frees: not for hot paths.
BERTH_API berth_status berth_memory_find(berth_runtime* runtime, const void* data,
                                         berth_memory_block* block);

/// Pinned memory around an address.
typedef struct berth_pinned_range {
  size_t struct_size;
  void* data;     ///< its start
  size_t bytes;   ///< as requested
  int kind;       ///< BERTH_PINNED_PORTABLE or a similar value
  int numa_node;  ///< the node it was bound to; -1: none
} berth_pinned_range;

#define BERTH_PINNED_RANGE_INIT \
  { sizeof(berth_pinned_range), NULL, 0, 0, 0 }

/// berth_allocator_find_pinned() with all known properties; a null `data` in `range` if there is
/// none.
BERTH_API berth_status berth_allocator_get_pinned_range(berth_allocator* allocator,
                                                        const void* data,
                                                        berth_pinned_range* range);

/// How pinned memory was obtained.
typedef struct berth_pinned_counters {
  size_t struct_size;
  uint64_t segments_by_callers;     ///< obtained while a caller waited
  uint64_t segments_in_background;  ///< obtained ahead of need
  uint64_t failures_in_background;  ///< failed attempts of the background thread
  uint64_t segments_registered;     ///< of both: berth's own pages, registered
  uint64_t segments_from_driver;    ///< of both: allocated by the driver
  uint64_t bytes_registered;        ///< of current registrations of the caller's memory
} berth_pinned_counters;

#define BERTH_PINNED_COUNTERS_INIT \
  { sizeof(berth_pinned_counters), 0, 0, 0, 0, 0, 0 }

/// Only for the pinned allocator, like the next function.
BERTH_API berth_status berth_allocator_get_pinned_counters(berth_allocator* allocator,
                                                           berth_pinned_counters* counters);
/// Waits until the background thread has done the work that earlier calls requested. Growth may end
/// below the low-water mark: PinnedAllocator::finish_background_work() (pinned_allocator.hpp).
BERTH_API berth_status berth_allocator_finish_background_work(berth_allocator* allocator);
/// The start of the live block or registration that contains `data`; null if there is none, and for
/// null. Only for the pinned allocator.
BERTH_API berth_status berth_allocator_find_pinned(berth_allocator* allocator, const void* data,
                                                   void** block);

/// A level: its current value, and its peak since the last reset.
typedef struct berth_gauge {
  uint64_t current;
  uint64_t peak;
} berth_gauge;

// memory_counters.h describes each field. Gauges and totals are two structs, so that both lists can
// grow at their ends.
#define BERTH_FIELD_(name, help) berth_gauge name;
/// Each gauge of an allocator.
typedef struct berth_memory_gauges {
  size_t struct_size;
  BERTH_MEMORY_GAUGES(BERTH_FIELD_)
} berth_memory_gauges;
#undef BERTH_FIELD_

#define BERTH_FIELD_(name, help) uint64_t name;
/// Each total of an allocator.
typedef struct berth_memory_totals {
  size_t struct_size;
  BERTH_MEMORY_TOTALS(BERTH_FIELD_)
} berth_memory_totals;
#undef BERTH_FIELD_

// clang-format off
#define BERTH_ZERO_GAUGE_(name, help) , {0, 0}
#define BERTH_ZERO_TOTAL_(name, help) , 0
#define BERTH_MEMORY_GAUGES_INIT \
  {sizeof(berth_memory_gauges) BERTH_MEMORY_GAUGES(BERTH_ZERO_GAUGE_)}
#define BERTH_MEMORY_TOTALS_INIT \
  {sizeof(berth_memory_totals) BERTH_MEMORY_TOTALS(BERTH_ZERO_TOTAL_)}
// clang-format on

/// Both structs are from one reading.
BERTH_API berth_status berth_allocator_get_counters(berth_allocator* allocator,
                                                    berth_memory_gauges* gauges,
                                                    berth_memory_totals* totals);
/// Sets the peak of every gauge to its current value.
BERTH_API berth_status berth_allocator_reset_peaks(berth_allocator* allocator);
/// Checks every invariant and stops the process at the first violation. For tests and debugging;
/// visits every block.
BERTH_API berth_status berth_allocator_validate(berth_allocator* allocator);

#ifdef __cplusplus
}
#endif

#endif
