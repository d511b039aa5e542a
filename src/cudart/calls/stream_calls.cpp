// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Stream Management", "Execution Control".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {

static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue));

cudaError_t berth_cudart_cudaStreamCreate(cudaStream_t* stream) {
  return forward(Needs::context, &Driver::cuStreamCreate, stream, unsigned{cudaStreamDefault});
}

cudaError_t berth_cudart_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return forward(Needs::context, &Driver::cuStreamCreate, stream, flags);
}

cudaError_t berth_cudart_cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                      int priority) {
  return forward(Needs::context, &Driver::cuStreamCreateWithPriority, stream, flags, priority);
}

cudaError_t berth_cudart_cudaStreamDestroy(cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuStreamDestroy, stream);
}

cudaError_t berth_cudart_cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return forward(Needs::context, &Driver::cuStreamGetFlags, stream, flags);
}

cudaError_t berth_cudart_cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return forward(Needs::context, &Driver::cuStreamGetPriority, stream, priority);
}

cudaError_t berth_cudart_cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return forward(Needs::context, &Driver::cuStreamGetId, stream, id);
}

cudaError_t berth_cudart_cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return forward(Needs::context, &Driver::cuStreamGetDevice, stream, device);
}

cudaError_t berth_cudart_cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                                cudaStreamAttrValue* value) {
  return forward(Needs::context, &Driver::cuStreamGetAttribute, stream,
                 static_cast<CUstreamAttrID>(attribute), same<CUstreamAttrValue*>(value));
}

cudaError_t berth_cudart_cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                                const cudaStreamAttrValue* value) {
  return forward(Needs::context, &Driver::cuStreamSetAttribute, stream,
                 static_cast<CUstreamAttrID>(attribute), same<const CUstreamAttrValue*>(value));
}

cudaError_t berth_cudart_cudaStreamCopyAttributes(cudaStream_t destination, cudaStream_t source) {
  return forward(Needs::context, &Driver::cuStreamCopyAttributes, destination, source);
}

cudaError_t berth_cudart_cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer,
                                                  std::size_t bytes, unsigned flags) {
  return forward(Needs::context, &Driver::cuStreamAttachMemAsync, stream, address(pointer), bytes,
                 flags);
}

cudaError_t berth_cudart_cudaStreamQuery(cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuStreamQuery, stream);
}

cudaError_t berth_cudart_cudaStreamSynchronize(cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuStreamSynchronize, stream);
}

cudaError_t berth_cudart_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                             unsigned flags) {
  return forward(Needs::context, &Driver::cuStreamWaitEvent, stream, event, flags);
}

// The two callback types differ only in the name of the error type.
cudaError_t berth_cudart_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                               void* data, unsigned flags) {
  return forward(Needs::context, &Driver::cuStreamAddCallback, stream,
                 reinterpret_cast<CUstreamCallback>(callback), data, flags);
}

cudaError_t berth_cudart_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                            void* data) {
  return forward(Needs::context, &Driver::cuLaunchHostFunc, stream, function, data);
}

}  // namespace berth::cudart
