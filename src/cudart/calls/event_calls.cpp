// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Event Management"; cudaIpc* of "Device Management".
#include <bit>

#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {

cudaError_t berth_cudart_cudaEventCreate(cudaEvent_t* event) {
  return forward(Needs::context, &Driver::cuEventCreate, event, unsigned{cudaEventDefault});
}

cudaError_t berth_cudart_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return forward(Needs::context, &Driver::cuEventCreate, event, flags);
}

cudaError_t berth_cudart_cudaEventDestroy(cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuEventDestroy, event);
}

cudaError_t berth_cudart_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuEventRecord, event, stream);
}

cudaError_t berth_cudart_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                  unsigned flags) {
  return forward(Needs::context, &Driver::cuEventRecordWithFlags, event, stream, flags);
}

cudaError_t berth_cudart_cudaEventQuery(cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuEventQuery, event);
}

cudaError_t berth_cudart_cudaEventSynchronize(cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuEventSynchronize, event);
}

cudaError_t berth_cudart_cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                              cudaEvent_t end) {
  return forward(Needs::context, &Driver::cuEventElapsedTime, milliseconds, start, end);
}

cudaError_t berth_cudart_12_cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                                 cudaEvent_t end) {
  return berth_cudart_cudaEventElapsedTime(milliseconds, start, end);
}

cudaError_t berth_cudart_cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuIpcGetEventHandle, same<CUipcEventHandle*>(handle),
                 event);
}

cudaError_t berth_cudart_cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return forward(Needs::context, &Driver::cuIpcOpenEventHandle, event,
                 std::bit_cast<CUipcEventHandle>(handle));
}

cudaError_t berth_cudart_cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return forward(Needs::context, &Driver::cuIpcGetMemHandle, same<CUipcMemHandle*>(handle),
                 address(pointer));
}

cudaError_t berth_cudart_cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle,
                                              unsigned flags) {
  return forward(Needs::context, &Driver::cuIpcOpenMemHandle, same<CUdeviceptr*>(pointer),
                 std::bit_cast<CUipcMemHandle>(handle), flags);
}

cudaError_t berth_cudart_cudaIpcCloseMemHandle(void* pointer) {
  return forward(Needs::context, &Driver::cuIpcCloseMemHandle, address(pointer));
}

}  // namespace berth::cudart
