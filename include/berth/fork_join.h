/* SPDX-License-Identifier: Apache-2.0 */
// Order between streams: one waits for many, and work that spreads over side streams and comes back.
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

/// Work submitted to `waiter` from now on waits for what each of `streams` holds now. They may be of
/// any devices, and `waiter` may be among them. `streams` may be null where `count` is 0.
/// Errors  BERTH_STREAM_CAPTURED: `waiter` is captured, and one of `streams` is not by that capture.
BERTH_API berth_status berth_stream_join(berth_runtime* runtime, berth_stream waiter,
                                         const berth_stream* streams, size_t count);

/// Side streams between being forked and joined.
typedef struct berth_fork berth_fork;

/// Writes `count` pooled streams of `priority` to `streams`: they start behind what `parent` holds.
/// `streams` may be null where `count` is 0. They are the fork's, and not to be released.
/// Errors  BERTH_INVALID_ARGUMENT: a priority above 0.
BERTH_API berth_status berth_fork_begin(berth_runtime* runtime, berth_stream parent, size_t count,
                                        int priority, berth_stream* streams, berth_fork** fork);
/// Work submitted to the parent from now on waits for what the side streams hold, which are not to be
/// used afterwards. Where it fails they may be, and it can be called again.
BERTH_API berth_status berth_fork_join(berth_fork* fork);
/// Ends what berth_fork_begin() gave, and joins it where that has not been done; where the driver
/// refuses, the host waits instead and the report function is told. Null is no operation.
BERTH_API void berth_fork_end(berth_fork* fork);

#ifdef __cplusplus
}
#endif

#endif
