/* SPDX-License-Identifier: Apache-2.0 */
// Order between streams: one stream waits for several, and work that spreads over side streams and
// is joined again.
#ifndef BERTH_FORK_JOIN_H
#define BERTH_FORK_JOIN_H

#include <stddef.h>

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Makes work submitted to `waiter` from now on wait for the work that each of `streams` holds now.
/// They may be of any devices, and `waiter` may be among them. `streams` may be null if `count` is
/// 0.
/// Errors  BERTH_STREAM_CAPTURED: `waiter` is captured, and one of `streams` is not part of that
///         capture.
BERTH_API berth_status berth_stream_join(berth_runtime* runtime, berth_stream waiter,
                                         const berth_stream* streams, size_t count);

/// Side streams between fork and join.
typedef struct berth_fork berth_fork;

/// Writes `count` pooled streams of `priority` to `streams`: they start after the work of `parent`.
/// `streams` may be null if `count` is 0. They belong to the fork and must not be released.
/// Blocking  As berth_stream_acquire().
/// Errors    BERTH_INVALID_ARGUMENT: a priority above 0, or a `count` above 65536. BERTH_EXHAUSTED:
///           too few streams or events. BERTH_DRIVER_ERROR. There is no fork then, and no stream is
///           on lease.
BERTH_API berth_status berth_fork_begin(berth_runtime* runtime, berth_stream parent, size_t count,
                                        int priority, berth_stream* streams, berth_fork** fork);
/// Makes work submitted to the parent from now on wait for the work of the side streams, which must
/// not be used afterwards.
/// Errors  BERTH_DRIVER_ERROR: the side streams may still be used, and the call can be repeated.
BERTH_API berth_status berth_fork_join(berth_fork* fork);
/// Ends a fork, and joins it if that has not been done. If the driver refuses, the host waits
/// instead and the report function is notified. Null: no effect.
BERTH_API void berth_fork_end(berth_fork* fork);

#ifdef __cplusplus
}
#endif

#endif
