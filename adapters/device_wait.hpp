// SPDX-License-Identifier: Apache-2.0
// Waiting for a device, for libraries that do not tell which streams use their memory.
#pragma once

#include "berth/device_guard.hpp"
#include "berth/runtime.hpp"

namespace berth {

/// Waits until the device is idle. Returns the CUresult; 0 also if the driver has no such function.
/// The wait would end the capture of a stream of the device. While a stream is captured that waits
/// for the legacy default stream, which the driver reports, the result is
/// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture continues.
inline int try_wait_until_idle(Runtime& runtime, Device device) {
  constexpr int kCaptureUnsupported = 900;
  const auto synchronize =
      reinterpret_cast<int (*)()>(runtime.driver_function("cuCtxSynchronize", 2000));
  if (synchronize == nullptr) return 0;
  if (runtime.stream(device, nullptr).is_capturing()) return kCaptureUnsupported;
  const DeviceGuard guard(runtime.devices(), device);
  return synchronize();
}

}  // namespace berth
