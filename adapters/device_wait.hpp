// SPDX-License-Identifier: Apache-2.0
// Waiting for a device, for libraries that do not tell which streams use their memory.
#pragma once

#include "berth/device_guard.hpp"
#include "berth/runtime.hpp"

namespace berth {

/// Waits until the device is idle. Returns the CUresult; 0 also if the driver has no such function.
inline int try_wait_until_idle(const Runtime& runtime, Device device) {
  const auto synchronize =
      reinterpret_cast<int (*)()>(runtime.driver_function("cuCtxSynchronize", 2000));
  const DeviceGuard guard(runtime.devices(), device);
  return synchronize == nullptr ? 0 : synchronize();
}

}  // namespace berth
