// SPDX-License-Identifier: Apache-2.0
// The functions that nvcc's host code calls beside the public ones, declared only for nvcc in
// crt/host_runtime.h and crt/device_functions.h of the toolkit. At global scope, as NVIDIA's names
// are.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaUnregisterFatBinary(void** module);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* device_name, int thread_limit, uint3* thread_id,
                            uint3* block_id, dim3* block, dim3* grid, int* warp_size);
void __cudaRegisterVar(void** module, char* host_variable, char* device_address,
                       const char* device_name, int is_external, std::size_t bytes, int is_constant,
                       int is_global);
void __cudaRegisterManagedVar(void** module, void** host_pointer, char* device_address,
                              const char* device_name, int is_external, std::size_t bytes,
                              int is_constant, int is_global);
char __cudaInitModule(void** module);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream);
}
