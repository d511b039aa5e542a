/* SPDX-License-Identifier: Apache-2.0 */
// A pending copy: its end, its progress, and its failure.
#ifndef BERTH_TRANSFER_H
#define BERTH_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

#include "berth/completion_queue.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Safe from any thread; inside a CUDA host callback, only berth_transfer_get_bytes() and
/// berth_transfer_cancel(). Must be released once.
typedef struct berth_transfer berth_transfer;

/// Options of the calls that start a transfer.
typedef struct berth_transfer_options {
  size_t struct_size;
  /// Called once the transfer is over, under the rules of berth_stream_when_done(). Null: no call.
  /// If the call that starts the transfer fails, it is not called.
  berth_completion_function on_done;
  void* user;  ///< passed to on_done; may be null
  /// Called once with `owner` when berth needs neither source nor target any more, on any thread;
  /// it must not wait for work of the device. Null: no call. If the call that starts the transfer
  /// fails, it is not called, and nothing uses the memory any more.
  void (*release)(void* owner);
  void* owner;       ///< of both source and target; passed to release, may be null
  int has_priority;  ///< 1: `priority` applies; 0: the priority of the stream applies
  int priority;      ///< of the host work; lower numbers go first
  /// Of copies between host memory and buffers (device_backend.h); no effect on others. 0: the
  /// backend makes the copy by one call. Otherwise a berth thread makes it in parts of this size,
  /// so that it reports progress and can be cancelled: 64 KiB or more, a multiple of 4 KiB. A copy
  /// that is not larger than one part is made by one call.
  size_t part_bytes;
} berth_transfer_options;

#define BERTH_TRANSFER_OPTIONS_INIT \
  { sizeof(berth_transfer_options), NULL, NULL, NULL, NULL, 0, 0, 0 }

/// As berth_copy_async(), but returns immediately: source and target must stay valid, and the
/// source unchanged, until the transfer is over, for every kind of memory. Null `options`: the
/// defaults. `transfer` may be null; otherwise it must be released before the runtime is destroyed.
/// Errors  As berth_copy_async(). BERTH_STREAM_CAPTURED: also for options on a captured stream.
BERTH_API berth_status berth_transfer_start(berth_runtime* runtime, void* target,
                                            const void* source, size_t bytes, berth_stream stream,
                                            const berth_transfer_options* options,
                                            berth_transfer** transfer);
/// berth_transfer_start() in the order of two streams: the copy begins when the earlier work of
/// both is done, and later work of both begins when the copy is done. It is submitted to
/// `target_stream` if that is a stream of the device of either side, else to `source_stream`, which
/// must then be one. The stream of a side in host memory may be null (all zeros): the other stream
/// then orders the copy alone.
/// Errors  BERTH_STREAM_CAPTURED also: only one of the two is captured, or they belong to different
///         captures.
BERTH_API berth_status berth_transfer_start_between(berth_runtime* runtime, void* target,
                                                    const void* source, size_t bytes,
                                                    berth_stream target_stream,
                                                    berth_stream source_stream,
                                                    const berth_transfer_options* options,
                                                    berth_transfer** transfer);
/// berth_transfer_start() for `rows` rows of `row_bytes`. The pitch of a side is the distance from
/// the beginning of a row to the beginning of the next. No effect if either number is 0. All rows
/// of a side lie in one allocation.
/// Errors  BERTH_INVALID_ARGUMENT also: a pitch below `row_bytes`; sides that overlap, unless they
///         are different columns with the same pitch.
BERTH_API berth_status berth_transfer_start_rows(berth_runtime* runtime, void* target,
                                                 size_t target_pitch, const void* source,
                                                 size_t source_pitch, size_t row_bytes, size_t rows,
                                                 berth_stream stream,
                                                 const berth_transfer_options* options,
                                                 berth_transfer** transfer);
/// berth_transfer_start_rows() in the order of two streams, as berth_transfer_start_between().
BERTH_API berth_status berth_transfer_start_rows_between(
    berth_runtime* runtime, void* target, size_t target_pitch, const void* source,
    size_t source_pitch, size_t row_bytes, size_t rows, berth_stream target_stream,
    berth_stream source_stream, const berth_transfer_options* options, berth_transfer** transfer);

/// One copy of a batch. 0 bytes: no effect.
typedef struct berth_copy_range {
  void* target;
  const void* source;
  size_t bytes;
} berth_copy_range;

/// berth_transfer_start() for many copies in one call, without order among them, with one transfer
/// for all. Null with a `count` of 0: no effect.
/// Errors  BERTH_INVALID_ARGUMENT also: a target that overlaps another range of the batch; nothing
///         has been copied then. After other errors, some copies may have been made.
BERTH_API berth_status berth_transfer_start_batch(berth_runtime* runtime,
                                                  const berth_copy_range* copies, size_t count,
                                                  berth_stream stream,
                                                  const berth_transfer_options* options,
                                                  berth_transfer** transfer);
/// berth_transfer_start_batch() in the order of two streams, as berth_transfer_start_between(); one
/// of them must suit all copies.
BERTH_API berth_status berth_transfer_start_batch_between(berth_runtime* runtime,
                                                          const berth_copy_range* copies,
                                                          size_t count, berth_stream target_stream,
                                                          berth_stream source_stream,
                                                          const berth_transfer_options* options,
                                                          berth_transfer** transfer);
/// Releases the handle. The copy continues, and source and target must stay valid until it is over.
/// Null: no effect.
BERTH_API void berth_transfer_release(berth_transfer* transfer);

/// Whether the transfer is over, completed or failed. Queries the device, and never waits.
BERTH_API berth_status berth_transfer_is_done(berth_transfer* transfer, bool* done);
/// The failure, as far as it is known, else BERTH_OK. Never waits.
BERTH_API berth_status berth_transfer_check(berth_transfer* transfer);
/// The size of the transfer in bytes.
BERTH_API berth_status berth_transfer_get_bytes(berth_transfer* transfer, size_t* bytes);
/// Returns when the transfer is over, with its failure as the status. The calling thread takes part
/// in a copy of pageable memory. It watches a transfer of a buffer for up to 200 us, which is
/// processor time, before it sleeps.
/// Errors  BERTH_DRIVER_ERROR, BERTH_CANCELLED, BERTH_FILE. Of a transfer of a buffer also
///         BERTH_OUT_OF_MEMORY: the backend reports it, or the process has no memory for a copy in
///         parts or of a file; and BERTH_BACKEND_ERROR, BERTH_NOT_SUPPORTED,
///         BERTH_INVALID_ARGUMENT: the backend reports it. BERTH_INTERNAL_ERROR: a backend in C++
///         reports an exception that is not a berth::Error. BERTH_NOT_SUPPORTED also: a forked
///         child.
BERTH_API berth_status berth_transfer_wait(berth_transfer* transfer);
/// berth_transfer_wait() and berth_transfer_release() in one call, for `return` and BERTH_TRY().
/// The handle is released also if the transfer has failed.
BERTH_API berth_status berth_transfer_finish(berth_transfer* transfer);
/// Bytes that are known to have arrived, and bytes per second since the start. Either may be null.
BERTH_API berth_status berth_transfer_progress(berth_transfer* transfer, size_t* bytes_done,
                                               double* bytes_per_second);
/// Ends a copy of pageable memory, of a file or in parts early: the content of the target is
/// undefined, and the stream continues. Other copies are not affected. Never waits. Null: no
/// effect.
BERTH_API void berth_transfer_cancel(berth_transfer* transfer);

#ifdef __cplusplus
}
#endif

#endif
