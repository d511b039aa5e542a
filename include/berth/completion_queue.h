/* SPDX-License-Identifier: Apache-2.0 */
// Callbacks on the host after work on a stream.
#ifndef BERTH_COMPLETION_QUEUE_H
#define BERTH_COMPLETION_QUEUE_H

#include <stddef.h>

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// `status` is BERTH_OK if all previous work is done, and otherwise the failure, which `message`
/// describes; `message` is valid until the function returns. The function may call CUDA and berth,
/// except for berth_runtime_destroy(). It must not throw or leave by longjmp().
typedef void (*berth_completion_function)(void* user, berth_status status, const char* message);

/// Calls `function` once, on a berth thread, after the work that `stream` holds now is done or has
/// failed. Callbacks of one stream run in the order of submission. berth_runtime_destroy() waits
/// for the work and runs the outstanding callbacks. The callback may run before this call returns.
/// If this call fails, it does not run.
/// Errors  BERTH_STREAM_CAPTURED: the stream is captured. BERTH_INVALID_ARGUMENT: a stream of
///         another runtime. BERTH_EXHAUSTED: the system starts no more threads. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_stream_when_done(berth_runtime* runtime, berth_stream stream,
                                              berth_completion_function function, void* user);

/// Number of submitted functions that have not started.
BERTH_API berth_status berth_completions_get_outstanding(berth_runtime* runtime, size_t* count);

#ifdef __cplusplus
}
#endif

#endif
