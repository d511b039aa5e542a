/* SPDX-License-Identifier: Apache-2.0 */
// The status of a call, and the reason of a failure.
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H

#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A later release may add values: treat unknown values as failures.
typedef enum berth_status {
  BERTH_OK = 0,
  BERTH_INVALID_ARGUMENT = 1,  ///< something that was named does not exist or is not accepted
  BERTH_OUT_OF_MEMORY = 2,     ///< of device or pinned memory, or of the process's own
  BERTH_NOT_SUPPORTED = 3,     ///< the device or driver does not support it
  BERTH_DRIVER_ERROR = 4,      ///< a driver call failed: berth_last_error_driver_code()
  BERTH_INTERNAL_ERROR = 5,    ///< none of these: a bug of berth
  BERTH_EXHAUSTED = 6,         ///< all of a bounded pool is on lease; the system starts no thread
  BERTH_STREAM_CAPTURED = 7,   ///< refused, because it would break the capture of a stream
  BERTH_CANCELLED = 8,         ///< cancelled before it was done
  BERTH_FILE = 9,              ///< a file cannot be opened, read or written
  BERTH_CALLBACK_FAILED = 10,  ///< a function of the program returned a failure
  BERTH_BACKEND_ERROR = 11,    ///< a call of a backend failed: berth_last_error_driver_code()
  BERTH_STATUS_INT_MAX_ = 0x7fffffff  ///< never returned; makes any int a value of this type
} berth_status;

/// "BERTH_OK" and so on; "unknown berth_status" for any other number.
BERTH_API const char* berth_status_name(berth_status status);

/// The reason of the calling thread's last failing call: one line of at most 1023 bytes, cut with
/// "..." if it was longer; "" before the first failure. Never null. Successful calls do not change
/// it. Valid until the thread's next failing call, or its end.
BERTH_API const char* berth_last_error_message(void);

/// The CUresult of that failure; of BERTH_BACKEND_ERROR the code of the backend. 0 if no such call
/// failed.
BERTH_API int berth_last_error_driver_code(void);

/// For a library on top of berth, which refuses something itself: makes `message` the reason of the
/// calling thread's last failing call, without a driver code, and returns `status`. A message that
/// is too long is cut as above.
/// Errors  BERTH_INVALID_ARGUMENT: BERTH_OK, which is no failure, or a null message.
BERTH_API berth_status berth_last_error_set(berth_status status, const char* message);

/// In a function that returns a berth_status: returns the status of `call`, unless it is BERTH_OK.
#define BERTH_TRY(call)                            \
  do {                                             \
    const berth_status berth_try_ = (call);        \
    if (berth_try_ != BERTH_OK) return berth_try_; \
  } while (0)

/// Frees the text of a `char**` output. Null: no effect.
BERTH_API void berth_string_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
