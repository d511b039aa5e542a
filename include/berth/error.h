/* SPDX-License-Identifier: Apache-2.0 */
// What a call returns, and what was wrong where it failed.
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H

#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A later release may add values: take those that are unknown for failures.
typedef enum berth_status {
  BERTH_OK = 0,
  BERTH_INVALID_ARGUMENT = 1,         ///< what was named does not exist or is not accepted
  BERTH_OUT_OF_MEMORY = 2,            ///< device or pinned memory, or the process's own
  BERTH_NOT_SUPPORTED = 3,            ///< this device or driver cannot do it
  BERTH_DRIVER_ERROR = 4,             ///< a driver call failed: berth_last_error_driver_code()
  BERTH_INTERNAL_ERROR = 5,           ///< none of these: a bug of berth
  BERTH_EXHAUSTED = 6,                ///< all that a bounded pool may have is on lease
  BERTH_STREAM_CAPTURED = 7,          ///< refused, as it would break the capture of a stream
  BERTH_CANCELLED = 8,                ///< called off before it was done
  BERTH_FILE = 9,                     ///< a file cannot be opened, read or written
  BERTH_STATUS_INT_MAX_ = 0x7fffffff  ///< never returned; makes any int a value of this type
} berth_status;

/// "BERTH_OK" and so on; "unknown berth_status" for any other number.
BERTH_API const char* berth_status_name(berth_status status);

/// What was wrong with the calling thread's last call that failed: one line of at most 1023 bytes,
/// cut with "..." where it was longer; "" before the first failure. Never null. Successful calls
/// leave it. Valid until the thread's next call that fails, or its end.
BERTH_API const char* berth_last_error_message(void);

/// The CUresult behind that failure; 0 where no driver call failed.
BERTH_API int berth_last_error_driver_code(void);

/// Frees text that a `char**` output gave. Null is no operation.
BERTH_API void berth_string_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
