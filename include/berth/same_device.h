/* SPDX-License-Identifier: Apache-2.0 */
// The check at the beginning of an operation, that all its arguments are on one device, and the
// error that says which are not.
#ifndef BERTH_SAME_DEVICE_H
#define BERTH_SAME_DEVICE_H

#include <stddef.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Where an argument of an operation is.
typedef struct berth_device_argument {
  const char* name;  ///< null or "": it is called by its position, "argument 1" for the first
  berth_device device;
} berth_device_argument;

/// Succeeds where all of `count` arguments are on one device, or there are none. `arguments` may be
/// null where `count` is 0. `hint` says how an argument is moved, {device} in it standing for the
/// device; null or "": in berth's words.
/// Errors  BERTH_INVALID_ARGUMENT: they are not, with the name and the device of those elsewhere.
BERTH_API berth_status berth_require_same_device(const char* operation,
                                                 const berth_device_argument* arguments,
                                                 size_t count, const char* hint);

#ifdef __cplusplus
}
#endif

#endif
