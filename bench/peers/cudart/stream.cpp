// SPDX-License-Identifier: Apache-2.0
#include "peers/cudart/forward.hpp"

namespace berth::bench::cudart {

static_assert(int(cudaStreamCaptureStatusActive) == int(CU_STREAM_CAPTURE_STATUS_ACTIVE));

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return forward(
      [=](const Driver& to) { return to.try_ctx_get_stream_priority_range(least, greatest); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return forward([=](const Driver& to) {
    return to.try_stream_create_with_priority(stream, flags, priority);
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return forward([=](const Driver&) {
    return stream_get_id != nullptr ? stream_get_id(stream, id) : CUDA_ERROR_NOT_SUPPORTED;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return forward([=](const Driver& to) { return to.try_stream_wait_event(stream, event, flags); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return forward([=](const Driver& to) { return to.try_stream_query(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return forward([=](const Driver& to) { return to.try_stream_synchronize(stream); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CUstreamCaptureStatus is = CU_STREAM_CAPTURE_STATUS_NONE;
  const cudaError_t error =
      forward([&](const Driver& to) { return to.try_stream_is_capturing(stream, &is); });
  *status = static_cast<cudaStreamCaptureStatus>(is);
  return error;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
  const cudaError_t error =
      forward([&](const Driver& to) { return to.try_thread_exchange_capture_mode(&exchanged); });
  *mode = static_cast<cudaStreamCaptureMode>(exchanged);
  return error;
}

}  // extern "C"

}  // namespace berth::bench::cudart
