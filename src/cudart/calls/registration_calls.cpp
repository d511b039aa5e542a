// SPDX-License-Identifier: Apache-2.0
// The functions that nvcc's host code calls before main() and at exit, as used by
// crt/host_runtime.h of the toolkit.
#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/modules.hpp"

namespace berth::cudart {
namespace {

Module& module_of(void** handle) {
  return *reinterpret_cast<Module*>(handle);
}

}  // namespace

// The binary contains device code, which is not read.
void** berth_cudart___cudaRegisterFatBinary(void*) {
  return reinterpret_cast<void**>(modules().add());
}

void berth_cudart___cudaRegisterFatBinaryEnd(void**) {}

void berth_cudart___cudaUnregisterFatBinary(void** handle) {
  modules().remove(&module_of(handle));
}

void berth_cudart___cudaRegisterFunction(void** handle, const char* host_function, char*,
                                         const char* device_name, int, uint3*, uint3*, dim3*, dim3*,
                                         int*) {
  modules().add_kernel(module_of(handle), host_function, device_name);
}

void berth_cudart___cudaRegisterVar(void** handle, char* host_variable, char*, const char*, int,
                                    std::size_t bytes, int, int) {
  modules().add_variable(module_of(handle), host_variable, bytes);
}

void berth_cudart___cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char*,
                                           int, std::size_t bytes, int, int) {
  modules().add_managed(module_of(handle), host_pointer, bytes);
}

char berth_cudart___cudaInitModule(void** handle) {
  const cudaError_t error = call(Needs::context, [&](const Driver& driver) {
    return modules().allocate_managed(driver, module_of(handle));
  });
  return error == cudaSuccess ? 1 : 0;
}

// Not 0, which makes the compiler's code omit the launch.
unsigned berth_cudart___cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                                  CUstream_st* stream) {
  Thread& thread = this_thread();
  if (thread.configurations_pushed == thread.configurations.size()) return 1;
  thread.configurations[thread.configurations_pushed++] = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t berth_cudart___cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                    std::size_t* shared_bytes, void* stream) {
  Thread& thread = this_thread();
  if (thread.configurations_pushed == 0) return thread.note(cudaErrorMissingConfiguration);
  const LaunchConfiguration& last = thread.configurations[--thread.configurations_pushed];
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

}  // namespace berth::cudart
