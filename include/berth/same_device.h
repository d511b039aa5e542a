/* SPDX-License-Identifier: Apache-2.0 */
// The check at the start of an operation that all its arguments are on one device.
#ifndef BERTH_SAME_DEVICE_H
#define BERTH_SAME_DEVICE_H

#include <stddef.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The device of one argument of an operation.
typedef struct berth_device_argument {
  const char* name;  ///< null or "": identified by its position, "argument 1" for the first
  berth_device device;
} berth_device_argument;

/// Succeeds if all of `count` arguments are on one device, or if there are none. `arguments` may be
/// null if `count` is 0. `hint` tells the user how to move an argument; {device} in it is replaced
/// by the device. Null or "": berth's own hint.
/// Errors  BERTH_INVALID_ARGUMENT: the devices differ, with the names and devices of the arguments
///         that are elsewhere.
BERTH_API berth_status berth_require_same_device(const char* operation,
                                                 const berth_device_argument* arguments,
                                                 size_t count, const char* hint);

#ifdef __cplusplus
}
#endif

#endif
