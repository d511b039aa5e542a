// SPDX-License-Identifier: Apache-2.0
// Modules and their kernels.
// Source: CUDA Driver API, "Module Management", "Execution Control".
#include <utility>

#include "sim/call.hpp"
#include "sim/fork.hpp"
#include "sim/work/module_image.hpp"

namespace berth::sim {
namespace {

CUmodule made(Call& call, Image image) {
  return from_handle<CUmodule>(
      call.state().modules.create(call.context().handle, std::move(image)).handle);
}

CUresult load(Function function, CUmodule* module, const void* image) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image read = read_image(image);
  if (read.refusal != CUDA_SUCCESS) return read.refusal;
  *module = made(call, std::move(read));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuModuleLoad(CUmodule* module, const char* path) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (module == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image read = read_image_file(path);
  Call call(Function::k_cuModuleLoad, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (read.refusal != CUDA_SUCCESS) return read.refusal;
  *module = made(call, std::move(read));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuModuleLoadData(CUmodule* module, const void* image) {
  return load(Function::k_cuModuleLoadData, module, image);
}

// The options concern only the compiler.
CUresult berth_sim_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*,
                                      void**) {
  return load(Function::k_cuModuleLoadDataEx, module, image);
}

CUresult berth_sim_cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return load(Function::k_cuModuleLoadFatBinary, module, image);
}

CUresult berth_sim_cuModuleUnload(CUmodule module) {
  Call call(Function::k_cuModuleUnload, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Module* const found = call.state().modules.find(to_handle(module));
  if (found == nullptr || found->is_library()) return CUDA_ERROR_INVALID_HANDLE;
  unload(call.state(), to_handle(module));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  Call call(Function::k_cuModuleGetFunction, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (function == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  const Module* const found = call.state().modules.find(to_handle(module));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->may_have(name)) return CUDA_ERROR_NOT_FOUND;
  *function = from_handle<CUfunction>(function_of(call.state(), found->handle, name).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuFuncGetModule(CUmodule* module, CUfunction function) {
  Call call(Function::k_cuFuncGetModule, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceFunction* const found = call.state().functions.find(to_handle(function));
  if (found == nullptr || found->module == 0) return CUDA_ERROR_INVALID_HANDLE;
  *module = from_handle<CUmodule>(found->module);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuFuncGetName(const char** name, CUfunction function) {
  Call call(Function::k_cuFuncGetName, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceFunction* const found = call.state().functions.find(to_handle(function));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = found->name;
  return CUDA_SUCCESS;
}

CUfunc_st* berth_sim_berthSimKernelByName(const char* name) {
  if (is_parents_driver()) return nullptr;
  MutexLock lock(mutex);
  State* const state = installed_state();
  if (state == nullptr || !state->initialized || name == nullptr) return nullptr;
  return from_handle<CUfunction>(function_of(*state, 0, name).handle);
}

}  // namespace berth::sim
