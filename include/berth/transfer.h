/* SPDX-License-Identifier: Apache-2.0 */
// An asynchronous copy under way: whether it is done, how far it is, and what became of it.
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

/// Safe from any thread, as long as it is released once.
typedef struct berth_transfer berth_transfer;

/// Options of the calls that start a transfer.
typedef struct berth_transfer_options {
  size_t struct_size;
  /// Called once the transfer is over, as that of berth_stream_when_done(). Null: no call. If the
  /// call that starts the transfer fails, it is not called.
  berth_completion_function on_done;
  void* user;  ///< passed to on_done; may be null
  /// Called once with `owner` when berth no longer needs source and target, on any thread; it must
  /// not wait for work of the device. Null: no call. If the call that starts the transfer fails, it
  /// is not called, and nothing uses the memory any more.
  void (*release)(void* owner);
  void* owner;       ///< of source and target; passed to release, may be null
  int has_priority;  ///< 1: `priority` applies; 0: that of the stream
  int priority;      ///< lower numbers go first if the host has a part to do
} berth_transfer_options;

#define BERTH_TRANSFER_OPTIONS_INIT \
  { sizeof(berth_transfer_options), NULL, NULL, NULL, NULL, 0, 0 }

/// As berth_copy_async(), but returns at once: source and target stay valid, and the source as it
/// is, until the transfer is over, whatever kind of memory they are. Null `options`: the defaults.
/// `transfer` may be null; otherwise it must be released before the runtime is destroyed.
/// Errors  As berth_copy_async(). BERTH_STREAM_CAPTURED: also for options on a captured stream.
BERTH_API berth_status berth_transfer_start(berth_runtime* runtime, void* target,
                                            const void* source, size_t bytes, berth_stream stream,
                                            const berth_transfer_options* options,
                                            berth_transfer** transfer);
/// The same between the work of two streams: the copy begins when the earlier work of both is done,
/// and later work of both begins when the copy is done. It is submitted to `target_stream` where
/// that is a stream of the device of either side, and otherwise to `source_stream`; one of them has
/// to be.
/// Errors  BERTH_STREAM_CAPTURED also: one of the two is captured and the other is not, or by
///         another capture.
BERTH_API berth_status berth_transfer_start_between(berth_runtime* runtime, void* target,
                                                    const void* source, size_t bytes,
                                                    berth_stream target_stream,
                                                    berth_stream source_stream,
                                                    const berth_transfer_options* options,
                                                    berth_transfer** transfer);
/// berth_transfer_start() for `rows` rows of `row_bytes`, which lie a pitch apart on either side,
/// counted from one row's begin to the next one's. Either number 0 is no operation. All rows of a
/// side lie in one allocation.
/// Errors  BERTH_INVALID_ARGUMENT also: a pitch below `row_bytes`; sides that overlap, unless they
///         are other columns of the same pitch.
BERTH_API berth_status berth_transfer_start_rows(berth_runtime* runtime, void* target,
                                                 size_t target_pitch, const void* source,
                                                 size_t source_pitch, size_t row_bytes, size_t rows,
                                                 berth_stream stream,
                                                 const berth_transfer_options* options,
                                                 berth_transfer** transfer);
/// The same between the work of two streams, as berth_transfer_start_between().
BERTH_API berth_status berth_transfer_start_rows_between(
    berth_runtime* runtime, void* target, size_t target_pitch, const void* source,
    size_t source_pitch, size_t row_bytes, size_t rows, berth_stream target_stream,
    berth_stream source_stream, const berth_transfer_options* options, berth_transfer** transfer);

/// One copy of a batch. 0 bytes are none.
typedef struct berth_copy_range {
  void* target;
  const void* source;
  size_t bytes;
} berth_copy_range;

/// berth_transfer_start() for many copies at once, in no order among one another, with one transfer
/// for all of them. Null with a `count` of 0 is no operation.
/// Errors  BERTH_INVALID_ARGUMENT also: a target that overlaps anything else of the batch. Nothing
///         has been copied then. Of any other error: some may have been.
BERTH_API berth_status berth_transfer_start_batch(berth_runtime* runtime,
                                                  const berth_copy_range* copies, size_t count,
                                                  berth_stream stream,
                                                  const berth_transfer_options* options,
                                                  berth_transfer** transfer);
/// The same between the work of two streams, as berth_transfer_start_between(); one of them has to
/// suit all copies.
BERTH_API berth_status berth_transfer_start_batch_between(berth_runtime* runtime,
                                                          const berth_copy_range* copies,
                                                          size_t count, berth_stream target_stream,
                                                          berth_stream source_stream,
                                                          const berth_transfer_options* options,
                                                          berth_transfer** transfer);
/// Lets go of it; the copy goes on, and source and target stay until it is over. Null is no
/// operation.
BERTH_API void berth_transfer_release(berth_transfer* transfer);

/// Whether it is over, well or not. Asks the device, and never waits.
BERTH_API berth_status berth_transfer_is_done(berth_transfer* transfer, bool* done);
/// BERTH_OK if nothing has gone wrong, as far as known, or else the failure. Never waits.
BERTH_API berth_status berth_transfer_check(berth_transfer* transfer);
/// All bytes that the transfer moves.
BERTH_API berth_status berth_transfer_get_bytes(berth_transfer* transfer, size_t* bytes);
/// Returns once it is over; what went wrong is its status. The calling thread does a part of a copy
/// of pageable memory meanwhile.
/// Errors  BERTH_DRIVER_ERROR. BERTH_CANCELLED. BERTH_FILE.
BERTH_API berth_status berth_transfer_wait(berth_transfer* transfer);
/// Bytes that have arrived, by what is known, and bytes per second since the start. Each of the two
/// may be null.
BERTH_API berth_status berth_transfer_progress(berth_transfer* transfer, size_t* bytes_done,
                                               double* bytes_per_second);
/// Ends a copy of pageable memory early: the target's content is undefined then, and the stream
/// goes on. Others go on. Never waits. Null is no operation.
BERTH_API void berth_transfer_cancel(berth_transfer* transfer);

#ifdef __cplusplus
}
#endif

#endif
