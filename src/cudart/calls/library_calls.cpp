// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels, as the driver has them.
// Source: CUDA Runtime API, "Library Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {

// The options concern only the compiler, and when code is loaded. Those of the runtime have the
// numbers of the driver's.
cudaError_t berth_cudart_cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                             cudaJitOption* jit_options, void** jit_values,
                                             unsigned jit_count, cudaLibraryOption* options,
                                             void** values, unsigned count) {
  return forward(Needs::context, &Driver::cuLibraryLoadData, library, code,
                 same<CUjit_option*>(jit_options), jit_values, jit_count,
                 same<CUlibraryOption*>(options), values, count);
}

cudaError_t berth_cudart_cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path,
                                                 cudaJitOption* jit_options, void** jit_values,
                                                 unsigned jit_count, cudaLibraryOption* options,
                                                 void** values, unsigned count) {
  return forward(Needs::context, &Driver::cuLibraryLoadFromFile, library, path,
                 same<CUjit_option*>(jit_options), jit_values, jit_count,
                 same<CUlibraryOption*>(options), values, count);
}

cudaError_t berth_cudart_cudaLibraryUnload(cudaLibrary_t library) {
  return forward(Needs::context, &Driver::cuLibraryUnload, library);
}

cudaError_t berth_cudart_cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                              const char* name) {
  return forward(Needs::context, &Driver::cuLibraryGetKernel, kernel, library, name);
}

cudaError_t berth_cudart_cudaLibraryGetGlobal(void** pointer, std::size_t* bytes,
                                              cudaLibrary_t library, const char* name) {
  return forward(Needs::context, &Driver::cuLibraryGetGlobal,
                 reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name);
}

cudaError_t berth_cudart_cudaLibraryGetManaged(void** pointer, std::size_t* bytes,
                                               cudaLibrary_t library, const char* name) {
  return forward(Needs::context, &Driver::cuLibraryGetManaged,
                 reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name);
}

cudaError_t berth_cudart_cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return forward(Needs::context, &Driver::cuLibraryGetKernelCount, count, library);
}

cudaError_t berth_cudart_cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned room,
                                                     cudaLibrary_t library) {
  return forward(Needs::context, &Driver::cuLibraryEnumerateKernels, kernels, room, library);
}

}  // namespace berth::cudart
