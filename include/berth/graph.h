/* SPDX-License-Identifier: Apache-2.0 */
// CUDA graphs: work that is captured once and replayed many times.
#ifndef BERTH_GRAPH_H
#define BERTH_GRAPH_H

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/stream.h"

struct CUgraphExec_st;

#ifdef __cplusplus
extern "C" {
#endif

/// A capture, and an executable graph. Graph in C++ describes which memory a graph keeps.
/// Threads  A capture on the thread that began it, a graph on one thread at a time.
typedef struct berth_graph_capture berth_graph_capture;
typedef struct berth_graph berth_graph;

/// Captures the work that is submitted to `stream`, which does not run, until
/// berth_graph_capture_end(). Streams that wait for an event of `stream` are captured with it, and
/// must be waited for before the end.
/// Errors  BERTH_INVALID_ARGUMENT: a default stream. BERTH_STREAM_CAPTURED: it is captured already;
///         that capture continues. BERTH_NOT_SUPPORTED: the driver has no graphs.
///         BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_graph_capture_begin(berth_stream stream,
                                                 berth_graph_capture** capture);
/// Ends the capture, and makes its work a graph. `capture` must still be released.
/// Errors  BERTH_INVALID_ARGUMENT: it has ended, or another thread began it; nothing is changed.
///         BERTH_DRIVER_ERROR: the capture is invalid, a captured stream was not waited for, or the
///         driver cannot instantiate the graph. The capture has ended then, without a graph.
BERTH_API berth_status berth_graph_capture_end(berth_graph_capture* capture, berth_graph** graph);
/// Ends the capture and drops its work, unless berth_graph_capture_end() has succeeded. Null: no
/// effect.
BERTH_API void berth_graph_capture_release(berth_graph_capture* capture);

/// Submits the work to `stream` once more, after the stream's earlier work and earlier replays of
/// the graph.
/// Errors  BERTH_INVALID_ARGUMENT: a stream of another device. BERTH_STREAM_CAPTURED: the stream is
///         captured; that capture continues. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_graph_replay(berth_graph* graph, berth_stream stream);
/// The device of the captured stream.
BERTH_API berth_status berth_graph_get_device(berth_graph* graph, berth_device* device);
/// For the driver's own calls.
BERTH_API berth_status berth_graph_get_native(berth_graph* graph, struct CUgraphExec_st** native);
/// Replays that have been submitted complete. Does not wait for them. Null: no effect.
BERTH_API void berth_graph_destroy(berth_graph* graph);

#ifdef __cplusplus
}
#endif

#endif
