// SPDX-License-Identifier: Apache-2.0
#include "stream/capture.hpp"

#include "device/device_context.hpp"

namespace berth {

bool is_capturing(StreamRef stream) {
  const Driver& driver = stream.context().driver();
  if (!driver.has(DriverCall::stream_is_capturing)) return false;
  const ContextScope scope(stream.context());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.try_stream_is_capturing(stream.native(), &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  if (result != CUDA_SUCCESS) driver.raise(DriverCall::stream_is_capturing, result);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace berth
