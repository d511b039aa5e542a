/* SPDX-License-Identifier: Apache-2.0 */
// Which device to use, where nobody has named one. device_pick.hpp and local_rank.hpp say how.
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
  BERTH_PICK_MOST_FREE_MEMORY = 1,  ///< by the memory that nobody holds
  BERTH_PICK_LOCAL_RANK = 2         ///< `cuda:N` for berth_local_rank_get()'s N
};

/// `preference`: BERTH_PICK_LEAST_USED or one of its neighbours. Creates no context.
/// Errors  BERTH_INVALID_ARGUMENT: another preference; no CUDA devices; no launcher says the local
///         rank, or a rank without a device. BERTH_NOT_SUPPORTED: NVML does not work where it is
///         needed; every device is lost, prohibited or somebody else's.
BERTH_API berth_status berth_device_pick(berth_runtime* runtime, int preference,
                                         berth_device* picked);

/// What the device of a UUID, or of a beginning that it alone has, is now.
/// Errors  BERTH_INVALID_ARGUMENT: none or several have it; it is hidden, split or lost. The message
///         says which devices there are.
BERTH_API berth_status berth_device_find(berth_runtime* runtime, const char* uuid,
                                         berth_device* found);

/// The rank of this process among those of its job on this machine, and the environment variable
/// that says so, which is valid for the life of the process; -1 and "" where no launcher says it.
/// Errors  BERTH_INVALID_ARGUMENT: the variable is no number from 0.
BERTH_API berth_status berth_local_rank_get(int* rank, const char** variable);

#ifdef __cplusplus
}
#endif

#endif
