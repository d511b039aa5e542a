/* SPDX-License-Identifier: Apache-2.0 */
// The devices on which the tensors of a file are loaded. device_map.hpp has the rules.
#ifndef BERTH_DEVICE_MAP_H
#define BERTH_DEVICE_MAP_H

#include <stddef.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Maps the device of a saved tensor to a device of this machine. Needs no runtime. Never changes;
/// safe from any thread.
typedef struct berth_device_map berth_device_map;

/// Returns the device for tensors saved on `saved`. Called on the thread that calls
/// berth_device_map_find().
typedef berth_device (*berth_device_map_function)(void* user, berth_device saved);

/// From text: "cuda:1=cpu,*=cuda:0".
/// Errors  BERTH_INVALID_ARGUMENT, with the first invalid entry and what is accepted.
BERTH_API berth_status berth_device_map_parse(const char* text, berth_device_map** map);
/// From a function, which receives `user` as its first argument.
BERTH_API berth_status berth_device_map_create(berth_device_map_function function, void* user,
                                               berth_device_map** map);
/// One row of a table.
typedef struct berth_device_map_entry {
  berth_device saved;
  berth_device target;
} berth_device_map_entry;

/// From a table. Devices that it does not name map to themselves. `entries` may be null if `count`
/// is 0.
/// Errors  BERTH_INVALID_ARGUMENT: a device is named twice.
BERTH_API berth_status berth_device_map_create_table(const berth_device_map_entry* entries,
                                                     size_t count, berth_device_map** map);
/// Every device maps to `target`: "*=cpu".
BERTH_API berth_status berth_device_map_create_all(berth_device target, berth_device_map** map);
/// Null: no effect.
BERTH_API void berth_device_map_release(berth_device_map* map);

/// Errors  BERTH_INVALID_ARGUMENT: `saved`, or the result of the function, is not a device.
BERTH_API berth_status berth_device_map_find(berth_device_map* map, berth_device saved,
                                             berth_device* target);
/// Checks before a load that each of `count` devices, which may contain duplicates, maps to an
/// existing device of the runtime.
/// Errors  BERTH_INVALID_ARGUMENT that names each device whose target does not exist. Errors of
///         berth_device_map_find().
BERTH_API berth_status berth_device_map_check(berth_device_map* map, berth_runtime* runtime,
                                              const berth_device* saved, size_t count);

#ifdef __cplusplus
}
#endif

#endif
