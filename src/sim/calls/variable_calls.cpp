// SPDX-License-Identifier: Apache-2.0
// The variables of modules and libraries.
// Source: CUDA Driver API, "Module Management", "Library Management".
#include "sim/call.hpp"

namespace berth::sim {
namespace {

enum class Wanted { any, device, managed };

/// The variable in the context in which `module` is loaded, or the current one. At least one of
/// `pointer` and `bytes` is not null.
CUresult give_variable(Call& call, Module& module, const char* name, Wanted wanted,
                       CUdeviceptr* pointer, std::size_t* bytes) {
  State& state = call.state();
  if (!module.variables) return CUDA_ERROR_NOT_SUPPORTED;
  ModuleVariable* const found = module.find_variable(name);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  const bool is_managed = found->declared.is_managed;
  if (wanted != Wanted::any && is_managed != (wanted == Wanted::managed))
    return CUDA_ERROR_NOT_FOUND;
  if (pointer != nullptr) {
    const Context& context =
        module.is_library() ? call.context() : *state.contexts.find(module.context);
    const std::uint64_t address = address_in(state, context, *found);
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = address;
  }
  if (bytes != nullptr) *bytes = found->declared.bytes;
  return CUDA_SUCCESS;
}

bool are_given(const CUdeviceptr* pointer, const std::size_t* bytes, const char* name) {
  return (pointer != nullptr || bytes != nullptr) && name != nullptr && *name != '\0';
}

CUresult give_of_library(Call& call, CUlibrary library, const char* name, Wanted wanted,
                         CUdeviceptr* pointer, std::size_t* bytes) {
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!are_given(pointer, bytes, name)) return CUDA_ERROR_INVALID_VALUE;
  Module* const found = call.state().modules.find(to_handle(library));
  if (found == nullptr || !found->is_library()) return CUDA_ERROR_INVALID_HANDLE;
  return give_variable(call, *found, name, wanted, pointer, bytes);
}

}  // namespace

CUresult berth_sim_cuModuleGetGlobal(CUdeviceptr* pointer, std::size_t* bytes, CUmodule module,
                                     const char* name) {
  Call call(Function::k_cuModuleGetGlobal, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!are_given(pointer, bytes, name)) return CUDA_ERROR_INVALID_VALUE;
  Module* const found = call.state().modules.find(to_handle(module));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return give_variable(call, *found, name, Wanted::any, pointer, bytes);
}

CUresult berth_sim_cuLibraryGetGlobal(CUdeviceptr* pointer, std::size_t* bytes, CUlibrary library,
                                      const char* name) {
  Call call(Function::k_cuLibraryGetGlobal, Needs::context);
  return give_of_library(call, library, name, Wanted::device, pointer, bytes);
}

// Managed memory counts against the context that is current at the first call.
CUresult berth_sim_cuLibraryGetManaged(CUdeviceptr* pointer, std::size_t* bytes, CUlibrary library,
                                       const char* name) {
  Call call(Function::k_cuLibraryGetManaged, Needs::context);
  return give_of_library(call, library, name, Wanted::managed, pointer, bytes);
}

}  // namespace berth::sim
