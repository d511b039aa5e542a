/* SPDX-License-Identifier: Apache-2.0 */
// Checks for test programs in C: the first that fails says where and why, and ends the process.
#ifndef BERTH_TESTS_CAPI_CHECK_H
#define BERTH_TESTS_CAPI_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/berth.h"

/// What a test program returns where it could not run: the build system reports it as skipped.
enum { kExitSkipped = 77 };

#define CHECK(condition) check(__FILE__, __LINE__, #condition, (condition))

/// The call succeeds.
#define CHECK_OK(call) check_status(__FILE__, __LINE__, #call, (call), BERTH_OK, "")

/// The call fails with `status`, and says so with `part` in its message.
#define CHECK_FAILS(status, part, call) \
  check_status(__FILE__, __LINE__, #call, (call), (status), (part))

/// The same of a parameter that is null.
#define CHECK_REFUSED(parameter, call) \
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"" parameter "\"", call)

static inline void check(const char* file, int line, const char* condition, bool holds) {
  if (holds) return;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  exit(1);
}

static inline void check_status(const char* file, int line, const char* call, berth_status status,
                                berth_status expected, const char* part) {
  const char* const message = status == BERTH_OK ? "" : berth_last_error_message();
  if (status == expected && strstr(message, part) != NULL) return;
  fprintf(stderr, "%s:%d: %s\n  gives %s \"%s\"\n  not %s with \"%s\"\n", file, line, call,
          berth_status_name(status), message, berth_status_name(expected), part);
  exit(1);
}

#endif
