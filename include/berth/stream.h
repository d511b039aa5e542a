/* SPDX-License-Identifier: Apache-2.0 */
// Streams: queues of work on one device, executed in order.
#ifndef BERTH_STREAM_H
#define BERTH_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Refers to a CUDA stream: a value that is copied. Two values are the same stream if both fields
/// are equal. Both null is no stream, and BERTH_INVALID_ARGUMENT wherever one is needed. Made only
/// by the functions below, so `context` is always berth's own.
typedef struct berth_stream {
  struct berth_device_context* context;
  struct CUstream_st* native;  ///< for the driver's own calls; null: the legacy default stream
} berth_stream;

/// Leases a pooled stream of `priority`: 0 is the default and the lowest, and lower numbers run
/// first.
/// Blocking  If all streams of the priority are on lease, the key `streams_on_shortage` of the
///           configuration decides: the lease shares a stream, waits for one, or fails.
/// Errors    BERTH_INVALID_ARGUMENT: a priority above 0. BERTH_EXHAUSTED: all streams are on lease.
///           BERTH_DRIVER_ERROR: no stream can be created.
BERTH_API berth_status berth_stream_acquire(berth_runtime* runtime, berth_device device,
                                            int priority, berth_stream* stream);
/// Returns a stream of berth_stream_acquire() to its pool. Work may be pending.
/// Errors  BERTH_INVALID_ARGUMENT: not on lease from the pool of its device. Nothing is changed.
BERTH_API berth_status berth_stream_release(berth_runtime* runtime, berth_stream stream);

/// A flag of berth_stream_create(): the legacy default stream and this stream wait for each other.
#define BERTH_STREAM_BLOCKS_WITH_LEGACY_DEFAULT UINT32_C(1)

/// Creates a stream outside the pool, which the caller owns. `flags`: 0 or BERTH_STREAM_ bits.
/// `priority` as above.
/// Errors  BERTH_INVALID_ARGUMENT: an unknown bit, or a priority above 0. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_stream_create(berth_runtime* runtime, berth_device device,
                                           int priority, uint32_t flags, berth_stream* stream);
/// Destroys a stream that the caller owns, whether berth created it or not. Work may be pending,
/// and completes. Allocators are notified: berth_allocator_retire_stream() is not needed.
/// Errors  BERTH_INVALID_ARGUMENT: a default stream, or a pooled one, on lease or not. Nothing is
///         changed.
BERTH_API berth_status berth_stream_destroy(berth_stream stream);

/// Refers to a stream that other code created on `device`. Null `native`: the legacy default
/// stream. berth does not own the stream, and uses its handle only in calls that name it: memory
/// freed on it serves other streams later than memory of a stream that berth owns.
BERTH_API berth_status berth_stream_from_native(berth_runtime* runtime, berth_device device,
                                                struct CUstream_st* native, berth_stream* stream);

/// The per-thread default stream, CUDA's CU_STREAM_PER_THREAD: the stream of the thread that uses
/// it. It cannot order memory.
BERTH_API berth_status berth_stream_get_per_thread_default(berth_runtime* runtime,
                                                           berth_device device,
                                                           berth_stream* stream);

/// The device of the stream, always with its ordinal.
BERTH_API berth_status berth_stream_get_device(berth_stream stream, berth_device* device);
/// Whether submitted work becomes part of a graph instead of running, or the stream is the legacy
/// default stream and cannot be used because a stream that waits for it is captured.
BERTH_API berth_status berth_stream_is_capturing(berth_stream stream, bool* is_capturing);
/// Whether all work submitted so far is done. Does not block.
/// Errors  BERTH_STREAM_CAPTURED: if berth_stream_is_capturing(). BERTH_DRIVER_ERROR, also for a
///         failure of earlier work.
BERTH_API berth_status berth_stream_is_done(berth_stream stream, bool* is_done);
/// Blocks the calling thread until all work submitted so far is done.
/// Errors  As berth_stream_is_done().
BERTH_API berth_status berth_stream_sync(berth_stream stream);

/// The calling thread's current stream on `device`: the stream of the innermost guard, or the
/// legacy default stream.
BERTH_API berth_status berth_stream_get_current(berth_runtime* runtime, berth_device device,
                                                berth_stream* stream);

/// Number of pooled streams of `device` that exist, and of leases. Each of the two may be null.
BERTH_API berth_status berth_stream_pool_get_counts(berth_runtime* runtime, berth_device device,
                                                    size_t* streams_created, size_t* leases_live);

typedef struct berth_stream_guard berth_stream_guard;

/// Makes a stream and its device current on the calling thread until the guard is left.
/// Threads  A guard must be left on the thread that entered it, in reverse order of entering.
BERTH_API berth_status berth_stream_guard_enter(berth_stream stream, berth_stream_guard** guard);
/// Restores the previous stream and device. Null: no effect.
BERTH_API void berth_stream_guard_leave(berth_stream_guard* guard);

typedef struct berth_relaxed_capture_scope berth_relaxed_capture_scope;

/// Lets the calling thread query streams and events that are not captured, and wait for them, while
/// other threads capture, until the scope is left. RelaxedCaptureScope in C++.
/// Threads  A scope must be left on the thread that entered it, in reverse order of entering.
BERTH_API berth_status berth_relaxed_capture_scope_enter(berth_stream any,
                                                         berth_relaxed_capture_scope** scope);
/// Null: no effect.
BERTH_API void berth_relaxed_capture_scope_leave(berth_relaxed_capture_scope* scope);

#ifdef __cplusplus
}
#endif

#endif
