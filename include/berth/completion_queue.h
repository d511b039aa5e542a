/* SPDX-License-Identifier: Apache-2.0 */
// Callbacks that run on the host when work on a stream is done.
#ifndef BERTH_COMPLETION_QUEUE_H
#define BERTH_COMPLETION_QUEUE_H

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// `status` is BERTH_OK where all work before is done, and otherwise says with `message`, which is
/// valid until the function returns, what went wrong. May call CUDA and berth, but for
/// berth_runtime_destroy(). Must not throw or leave by longjmp().
typedef void (*berth_completion_function)(berth_status status, const char* message, void* user);

/// Calls `function` once, on a thread of berth's, after the work that `stream` holds now is done or
/// has failed; those of one stream in the order in which they were submitted. At the latest
/// berth_runtime_destroy() does, which waits for the work. It may be called before this returns.
/// Where this fails, it is not called.
/// Errors  BERTH_STREAM_CAPTURED: the stream is captured.
BERTH_API berth_status berth_stream_when_done(berth_runtime* runtime, berth_stream stream,
                                              berth_completion_function function, void* user);

#ifdef __cplusplus
}
#endif

#endif
