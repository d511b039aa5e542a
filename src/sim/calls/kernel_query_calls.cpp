// SPDX-License-Identifier: Apache-2.0
// What modules and libraries contain. CUDA_ERROR_NOT_SUPPORTED where that is not known.
// Source: CUDA Driver API, "Module Management", "Library Management", "Execution Control".
#include <algorithm>
#include <cstddef>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// The module, or the library if `is_library`.
const Module* find_module(State& state, Handle handle, bool is_library) {
  const Module* const found = state.modules.find(handle);
  return found != nullptr && (found->is_library() || !is_library) ? found : nullptr;
}

CUresult count_kernels(const Call& call, unsigned* count, Handle handle, bool is_library) {
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* const found = find_module(call.state(), handle, is_library);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->kernels) return CUDA_ERROR_NOT_SUPPORTED;
  *count = static_cast<unsigned>(found->kernels->size());
  return CUDA_SUCCESS;
}

template <class Opaque>
CUresult list_kernels(const Call& call, Opaque* functions, unsigned room, Handle handle,
                      bool is_library) {
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (functions == nullptr || room == 0) return CUDA_ERROR_INVALID_VALUE;
  const Module* const found = find_module(call.state(), handle, is_library);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->kernels) return CUDA_ERROR_NOT_SUPPORTED;
  const std::size_t count = std::min<std::size_t>(room, found->kernels->size());
  for (std::size_t i = 0; i < count; ++i)
    functions[i] = from_handle<Opaque>(
        function_of(call.state(), found->handle, (*found->kernels)[i].name).handle);
  return CUDA_SUCCESS;
}

CUresult tell_parameter(const Call& call, Handle function, std::size_t index, std::size_t* offset,
                        std::size_t* bytes) {
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const DeviceFunction* const found = state.functions.find(function);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* const owner = state.modules.find(found->module);
  const PtxKernel* const kernel = owner == nullptr ? nullptr : owner->find(found->name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (index >= kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->parameters[index].offset;
  if (bytes != nullptr) *bytes = kernel->parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  const Call call(Function::k_cuModuleGetFunctionCount, Needs::context);
  return count_kernels(call, count, to_handle(module), false);
}

CUresult berth_sim_cuModuleEnumerateFunctions(CUfunction* functions, unsigned room,
                                              CUmodule module) {
  const Call call(Function::k_cuModuleEnumerateFunctions, Needs::context);
  return list_kernels(call, functions, room, to_handle(module), false);
}

CUresult berth_sim_cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  const Call call(Function::k_cuLibraryGetKernelCount, Needs::driver);
  return count_kernels(call, count, to_handle(library), true);
}

CUresult berth_sim_cuLibraryEnumerateKernels(CUkernel* kernels, unsigned room, CUlibrary library) {
  const Call call(Function::k_cuLibraryEnumerateKernels, Needs::driver);
  return list_kernels(call, kernels, room, to_handle(library), true);
}

CUresult berth_sim_cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                                      std::size_t* bytes) {
  const Call call(Function::k_cuFuncGetParamInfo, Needs::driver);
  return tell_parameter(call, to_handle(function), index, offset, bytes);
}

CUresult berth_sim_cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset,
                                        std::size_t* bytes) {
  const Call call(Function::k_cuKernelGetParamInfo, Needs::driver);
  return tell_parameter(call, to_handle(kernel), index, offset, bytes);
}

// Every function is loaded with its module.
CUresult berth_sim_cuFuncLoad(CUfunction function) {
  const Call call(Function::k_cuFuncLoad, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const bool exists = call.state().functions.find(to_handle(function)) != nullptr;
  return exists ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult berth_sim_cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction function) {
  const Call call(Function::k_cuFuncIsLoaded, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (loaded == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.state().functions.find(to_handle(function)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *loaded = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
