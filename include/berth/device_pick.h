/* SPDX-License-Identifier: Apache-2.0 */
// Picks a device if the user has named none. device_pick.hpp and local_rank.hpp have the rules.
#ifndef BERTH_DEVICE_PICK_H
#define BERTH_DEVICE_PICK_H

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  BERTH_PICK_LEAST_USED = 0,        ///< by utilization and the memory that others hold
  BERTH_PICK_MOST_FREE_MEMORY = 1,  ///< by free memory
  BERTH_PICK_LOCAL_RANK = 2         ///< `cuda:N` for berth_local_rank_get()'s N
};

/// `preference`: a BERTH_PICK_ value. Creates no context.
/// Errors  BERTH_INVALID_ARGUMENT: another preference; no CUDA devices; no launcher sets the local
///         rank, or a rank without a device. BERTH_NOT_SUPPORTED: NVML is needed and not available;
///         or every device is lost, prohibited or in exclusive use by another process.
BERTH_API berth_status berth_device_pick(berth_runtime* runtime, int preference,
                                         berth_device* picked);

/// Finds the device with a UUID, or with a unique beginning of one.
/// Errors  BERTH_INVALID_ARGUMENT: no device or several match; the device is hidden, split or lost.
///         The message lists the existing devices.
BERTH_API berth_status berth_device_find(berth_runtime* runtime, const char* uuid,
                                         berth_device* found);

/// The rank of this process among the processes of its job on this machine, and the environment
/// variable that sets it, whose name is valid for the life of the process; -1 and "" if no launcher
/// sets one.
/// Errors  BERTH_INVALID_ARGUMENT: the variable is not a number from 0.
BERTH_API berth_status berth_local_rank_get(int* rank, const char** variable);

#ifdef __cplusplus
}
#endif

#endif
