// SPDX-License-Identifier: Apache-2.0
// Attributes of kernels: the limits of the device, and what the program has set.
// Source: CUDA Driver API, "Execution Control".
#include "sim/call.hpp"
#include "sim/work/kernel_limits.hpp"

namespace berth::sim {
namespace {

/// CUDA_ERROR_INVALID_VALUE for no attribute.
CUresult give_attribute(const State& state, int slot, CUfunction_attribute attribute,
                        const DeviceFunction& function, int* value) {
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const auto set = function.settings.find({slot, attribute});
  if (set != function.settings.end()) {
    *value = set->second;
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = device_limit(state, slot, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = kRegistersPerThread;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = dynamic_shared_max(state, slot, function);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 10 * device_limit(state, slot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
               device_limit(state, slot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;  // the driver chooses
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

/// Whether the program may give `attribute` the value on the device in `slot`.
bool can_be_set(const State& state, int slot, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return value >= 0 &&
             value <=
                 device_limit(state, slot, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value >= -1 && value <= 100;
    default:
      return attribute > CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT &&
             attribute < CU_FUNC_ATTRIBUTE_MAX;
  }
}

CUresult set_attribute(const State& state, int slot, CUfunction_attribute attribute, int value,
                       DeviceFunction& function) {
  if (!can_be_set(state, slot, attribute, value)) return CUDA_ERROR_INVALID_VALUE;
  function.settings[{slot, attribute}] = value;
  return CUDA_SUCCESS;
}

bool is_function(State& state, CUfunction function) {
  return state.functions.find(to_handle(function)) != nullptr;
}

}  // namespace

CUresult berth_sim_cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                      CUfunction function) {
  Call call(Function::k_cuFuncGetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const DeviceFunction* const found = call.state().functions.find(to_handle(function));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return give_attribute(call.state(), call.context().device, attribute, *found, value);
}

CUresult berth_sim_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                      int value) {
  Call call(Function::k_cuFuncSetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  DeviceFunction* const found = call.state().functions.find(to_handle(function));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return set_attribute(call.state(), call.context().device, attribute, value, *found);
}

CUresult berth_sim_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache preference) {
  Call call(Function::k_cuFuncSetCacheConfig, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!is_function(call.state(), function)) return CUDA_ERROR_INVALID_HANDLE;
  const bool is_known =
      preference >= CU_FUNC_CACHE_PREFER_NONE && preference <= CU_FUNC_CACHE_PREFER_EQUAL;
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult berth_sim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache preference,
                                          CUdevice device) {
  Call call(Function::k_cuKernelSetCacheConfig, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().functions.find(to_handle(kernel)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const bool is_known =
      preference >= CU_FUNC_CACHE_PREFER_NONE && preference <= CU_FUNC_CACHE_PREFER_EQUAL;
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult berth_sim_cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                        CUdevice device) {
  Call call(Function::k_cuKernelGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const DeviceFunction* const found = call.state().functions.find(to_handle(kernel));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const int slot = call.state().device_at(device).facts.slot;
  return give_attribute(call.state(), slot, attribute, *found, value);
}

CUresult berth_sim_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                        CUdevice device) {
  Call call(Function::k_cuKernelSetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  DeviceFunction* const found = call.state().functions.find(to_handle(kernel));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const int slot = call.state().device_at(device).facts.slot;
  return set_attribute(call.state(), slot, attribute, value, *found);
}

}  // namespace berth::sim
