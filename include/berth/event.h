/* SPDX-License-Identifier: Apache-2.0 */
// Events: points in a stream's work that the host and other streams can wait for.
#ifndef BERTH_EVENT_H
#define BERTH_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Refers to a CUDA event: a value that is copied. Null `native` is no event, and
/// BERTH_INVALID_ARGUMENT wherever one is needed. Made only by the functions below.
typedef struct berth_event {
  struct berth_device_context* context;
  struct CUevent_st* native;  ///< for the driver's own calls
} berth_event;

/// A flag of berth_event_acquire() and berth_event_create(), for berth_event_elapsed_ms(). Events
/// without it cost less to record and to wait for.
#define BERTH_EVENT_TIMING UINT32_C(1)

/// A flag of berth_event_create(), not together with BERTH_EVENT_TIMING: other processes may open
/// the event.
#define BERTH_EVENT_INTERPROCESS UINT32_C(2)

/// Leases a pooled event, which may still carry an old mark: record it before use. `flags`: 0 or
/// BERTH_EVENT_TIMING.
/// Errors  BERTH_INVALID_ARGUMENT: another bit. BERTH_EXHAUSTED: the maximum number of events is on
///         lease. BERTH_DRIVER_ERROR: no event can be created.
BERTH_API berth_status berth_event_acquire(berth_runtime* runtime, berth_device device,
                                           uint32_t flags, berth_event* event);
/// Leases a pooled event and records it after the work submitted to `stream` so far.
/// Errors  As berth_event_acquire() and berth_event_record(). No event is on lease then.
BERTH_API berth_status berth_event_acquire_recorded(berth_runtime* runtime, berth_stream stream,
                                                    berth_event* event);
/// Returns an event of either function to its pool.
/// Errors  BERTH_INVALID_ARGUMENT: not on lease from the pool of its device. Nothing is changed.
BERTH_API berth_status berth_event_release(berth_runtime* runtime, berth_event event);

/// Number of pooled events of `device` that exist, and of leases. Each of the two may be null.
BERTH_API berth_status berth_event_pool_get_counts(berth_runtime* runtime, berth_device device,
                                                   size_t* events_created, size_t* leases_live);

/// Creates an event outside the pool, which the caller owns. `flags`: 0 or BERTH_EVENT_ bits.
/// Errors  BERTH_INVALID_ARGUMENT: an unknown bit, or both together. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_event_create(berth_runtime* runtime, berth_device device,
                                          uint32_t flags, berth_event* event);
/// Destroys an event that the caller owns, whether berth created it or not.
/// Errors  BERTH_INVALID_ARGUMENT: a pooled event, on lease or not. Nothing is changed.
BERTH_API berth_status berth_event_destroy(berth_event event);

/// Refers to an event that other code created on `device`. `native` must not be null.
BERTH_API berth_status berth_event_from_native(berth_runtime* runtime, berth_device device,
                                               struct CUevent_st* native, berth_event* event);

/// The name of an event in other processes of the machine, to be sent unchanged.
typedef struct berth_ipc_event_handle {
  unsigned char bytes[64];
} berth_ipc_event_handle;

/// Errors  BERTH_INVALID_ARGUMENT: created without BERTH_EVENT_INTERPROCESS. BERTH_NOT_SUPPORTED:
///         the driver has no such events.
BERTH_API berth_status berth_event_get_ipc_handle(berth_event event,
                                                  berth_ipc_event_handle* handle);
/// Opens an event of another process, which must not destroy it before berth_event_destroy() is
/// called here.
/// Errors  BERTH_NOT_SUPPORTED: as above. BERTH_DRIVER_ERROR: the handle does not belong to an
///         event of the same device in another live process.
BERTH_API berth_status berth_event_open(berth_runtime* runtime, berth_device device,
                                        const berth_ipc_event_handle* handle, berth_event* event);

/// The device of the event, always with its ordinal.
BERTH_API berth_status berth_event_get_device(berth_event event, berth_device* device);
/// Marks the end of the work submitted to `stream` so far. On a captured stream it marks captured
/// work, which streams may wait for, and the host may not: berth_event_is_done(),
/// berth_event_sync() and berth_event_elapsed_ms() return BERTH_STREAM_CAPTURED.
/// Errors  BERTH_INVALID_ARGUMENT: a stream of another device. BERTH_DRIVER_ERROR. The mark is
///         unchanged then.
BERTH_API berth_status berth_event_record(berth_event event, berth_stream stream);
/// Whether all marked work is done; true for an event that was never recorded. Does not block.
/// Errors  BERTH_STREAM_CAPTURED: the event marks captured work. BERTH_DRIVER_ERROR, also for a
///         failure of earlier work.
BERTH_API berth_status berth_event_is_done(berth_event event, bool* is_done);
/// Blocks the calling thread until the marked work is done.
/// Errors  As berth_event_is_done().
BERTH_API berth_status berth_event_sync(berth_event event);
/// Makes work submitted to `stream` from now on wait for the event's mark. The host does not wait.
/// An event that was never recorded causes no wait. An event that marks captured work draws the
/// stream into the capture.
/// Errors  BERTH_STREAM_CAPTURED: the legacy default stream, while a stream that waits for it is
///         captured. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_stream_wait(berth_stream stream, berth_event event);

/// Milliseconds between the marks of two events that were created with BERTH_EVENT_TIMING.
/// Errors  BERTH_INVALID_ARGUMENT: an event that was never recorded, or has no timing.
///         BERTH_DRIVER_ERROR: an event that is not done.
BERTH_API berth_status berth_event_elapsed_ms(berth_event start, berth_event end,
                                              float* elapsed_ms);

#ifdef __cplusplus
}
#endif

#endif
