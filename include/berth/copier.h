/* SPDX-License-Identifier: Apache-2.0 */
// Copies between host and device, and between devices.
#ifndef BERTH_COPIER_H
#define BERTH_COPIER_H

#include <stddef.h>
#include <stdint.h>

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Copies between memory of any two kinds in the order of `stream`, which must be a stream of the
/// device of one side. Each range lies in one allocation; the two must not overlap. 0 bytes: no
/// effect, for any pointers.
///
/// Source    A device or pinned source is read in stream order, and must not change until then. A
///           pageable source has been read when the call returns, as with cuMemcpyAsync.
/// Target    A device or pinned target has the bytes when the stream has passed the copy, and must
///           stay valid until then. A pageable target has the bytes when the call returns, as with
///           cuMemcpyAsync.
/// Blocking  Does not wait for pinned and device memory. A pageable source: until it is in staging
///           memory, which takes a memcpy; if it does not fit, until the stream has passed a part
///           of the copy. A pageable target: until the stream has passed the copy.
///           berth_transfer_start() waits for neither. Copies between host memory wait for the
///           stream and are complete when the call returns, as with cuMemcpyAsync.
/// Errors    BERTH_INVALID_ARGUMENT: ranges that overlap or wrap around, a stream of a device that
///           neither side belongs to. BERTH_STREAM_CAPTURED: the stream is captured, and the host
///           would do the copy or a part of it (pageable memory, host to host); nothing has been
///           copied. BERTH_DRIVER_ERROR: the content of the target is undefined, and nothing is
///           written any more.
BERTH_API berth_status berth_copy_async(berth_runtime* runtime, void* target, const void* source,
                                        size_t bytes, berth_stream stream);
/// berth_copy_async() in the order of two streams, as berth_transfer_start_between().
BERTH_API berth_status berth_copy_async_between(berth_runtime* runtime, void* target,
                                                const void* source, size_t bytes,
                                                berth_stream target_stream,
                                                berth_stream source_stream);
/// berth_copy_async(), and returns when the target has the bytes.
BERTH_API berth_status berth_copy_sync(berth_runtime* runtime, void* target, const void* source,
                                       size_t bytes, berth_stream stream);
/// berth_copy_sync() in the order of two streams, as berth_transfer_start_between(), neither of
/// which is captured.
BERTH_API berth_status berth_copy_sync_between(berth_runtime* runtime, void* target,
                                               const void* source, size_t bytes,
                                               berth_stream target_stream,
                                               berth_stream source_stream);
/// Copies between host memory, pinned or pageable, on the calling thread and without a stream:
/// works without devices, and in a forked child.
/// Errors  BERTH_INVALID_ARGUMENT: ranges that overlap or wrap around; memory of a device that
///         berth has used.
BERTH_API berth_status berth_copy_host(berth_runtime* runtime, void* target, const void* source,
                                       size_t bytes);
/// Sets every byte of device memory to `value` in the order of `stream`. On a captured stream the
/// fill becomes part of the graph. 0 bytes: no effect.
/// Errors  BERTH_INVALID_ARGUMENT: memory that is neither the stream's device's nor managed.
///         BERTH_STREAM_CAPTURED: the legacy default stream, while a stream that waits for it is
///         captured. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_fill_async(berth_runtime* runtime, void* target, uint8_t value,
                                        size_t bytes, berth_stream stream);

/// The copies of a runtime so far, by path.
typedef struct berth_copy_counters {
  size_t struct_size;
  uint64_t copies_direct;  ///< pinned or device memory on both sides
  uint64_t copies_staged;  ///< through staging memory
  uint64_t copies_host;    ///< host to host
  uint64_t bytes_copied;   ///< by all copies
  /// The number of waits of berth_copy_async() for a device until a source had been read.
  uint64_t staging_waits;
  /// Copies of pageable memory and files by the driver; also direct copies of pageable memory by
  /// devices that use the host's page tables.
  uint64_t copies_by_driver;
  uint64_t staging_bytes;  ///< bytes of staging memory that copies hold now
} berth_copy_counters;

#define BERTH_COPY_COUNTERS_INIT \
  { sizeof(berth_copy_counters), 0, 0, 0, 0, 0, 0, 0 }

BERTH_API berth_status berth_copy_get_counters(berth_runtime* runtime,
                                               berth_copy_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
