// SPDX-License-Identifier: Apache-2.0
// Libraries: modules of no context. A kernel of one is a function in every context, by the same
// handle, so that cuLaunchKernel takes both.
// Source: CUDA Driver API, "Library Management".
#include <utility>

#include "sim/call.hpp"
#include "sim/fork.hpp"
#include "sim/work/module_image.hpp"

namespace berth::sim {
namespace {

Module* find_library(State& state, CUlibrary library) {
  Module* const found = state.modules.find(to_handle(library));
  return found != nullptr && found->is_library() ? found : nullptr;
}

/// The kernel, where it is of a library.
DeviceFunction* find_kernel(State& state, CUkernel kernel) {
  DeviceFunction* const found = state.functions.find(to_handle(kernel));
  const Module* const owner = found == nullptr ? nullptr : state.modules.find(found->module);
  return owner != nullptr && owner->is_library() ? found : nullptr;
}

CUresult load(Call& call, CUlibrary* library, Image image) {
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (image.refusal != CUDA_SUCCESS) return image.refusal;
  *library = from_handle<CUlibrary>(call.state().modules.create(0U, std::move(image)).handle);
  return CUDA_SUCCESS;
}

}  // namespace

// Options are of the compiler, and of when code is loaded.
CUresult berth_sim_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                     unsigned, CUlibraryOption*, void**, unsigned) {
  Call call(Function::k_cuLibraryLoadData, Needs::driver);
  if (library == nullptr || code == nullptr)
    return call.refusal() != CUDA_SUCCESS ? call.refusal() : CUDA_ERROR_INVALID_VALUE;
  return load(call, library, read_image(code));
}

CUresult berth_sim_cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*,
                                         void**, unsigned, CUlibraryOption*, void**, unsigned) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (library == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image image = read_image_file(path);
  Call call(Function::k_cuLibraryLoadFromFile, Needs::driver);
  return load(call, library, std::move(image));
}

CUresult berth_sim_cuLibraryUnload(CUlibrary library) {
  Call call(Function::k_cuLibraryUnload, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (find_library(call.state(), library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unload(call.state(), to_handle(library));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  Call call(Function::k_cuLibraryGetKernel, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (kernel == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  const Module* const found = find_library(call.state(), library);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->may_have(name)) return CUDA_ERROR_NOT_FOUND;
  *kernel = from_handle<CUkernel>(function_of(call.state(), found->handle, name).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  Call call(Function::k_cuLibraryGetModule, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_library(call.state(), library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *module = from_handle<CUmodule>(to_handle(library));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  Call call(Function::k_cuKernelGetFunction, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_kernel(call.state(), kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = from_handle<CUfunction>(to_handle(kernel));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  Call call(Function::k_cuKernelGetLibrary, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceFunction* const found = find_kernel(call.state(), kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *library = from_handle<CUlibrary>(found->module);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuKernelGetName(const char** name, CUkernel kernel) {
  Call call(Function::k_cuKernelGetName, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceFunction* const found = find_kernel(call.state(), kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = found->name;
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
