// SPDX-License-Identifier: Apache-2.0
// Facts of kernels. Their code is not read, so these are the limits of the device.
// Source: CUDA Driver API, "Execution Control", "Occupancy".
#include <algorithm>
#include <cstddef>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

int limit_of(const State& state, int slot, CUdevice_attribute attribute) {
  const Device& device = state.devices[static_cast<std::size_t>(slot)];
  return device_attribute(state.config, device.facts, attribute).value_or(0);
}

/// Of any kernel on the device in `slot`. CUDA_ERROR_INVALID_VALUE for no attribute.
CUresult give_attribute(const State& state, int slot, CUfunction_attribute attribute, int* value) {
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = limit_of(state, slot, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = limit_of(state, slot, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 10 * limit_of(state, slot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
               limit_of(state, slot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;  // the driver chooses
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult check_setting(CUfunction_attribute attribute) {
  const bool can_be_set = attribute >= CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                          attribute < CU_FUNC_ATTRIBUTE_MAX;
  return can_be_set ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_function(State& state, CUfunction function) {
  return state.functions.find(to_handle(function)) != nullptr;
}

/// As berth_sim_cuOccupancyMaxActiveBlocksPerMultiprocessor: of a kernel that uses no registers,
/// and no shared memory but what the launch asks for.
CUresult count_blocks(const Call& call, int* blocks, CUfunction function, int threads,
                      std::size_t shared_bytes) {
  const State& state = call.state();
  const auto limit = [&](CUdevice_attribute attribute) {
    return limit_of(state, call.context().device, attribute);
  };
  if (!is_function(call.state(), function)) return CUDA_ERROR_INVALID_HANDLE;
  const int most = limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (blocks == nullptr || threads <= 0 || threads > most) return CUDA_ERROR_INVALID_VALUE;
  const int warp = std::max(1, limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  const int in_warps = (threads + warp - 1) / warp * warp;
  *blocks = std::min(limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
                     limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / in_warps);
  const auto shared_max =
      static_cast<std::size_t>(limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  if (shared_bytes > shared_max) {
    *blocks = 0;
    return CUDA_SUCCESS;
  }
  const std::size_t of_block =
      shared_bytes +
      static_cast<std::size_t>(limit(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
  if (of_block != 0) *blocks = std::min(*blocks, static_cast<int>(shared_max / of_block));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                      CUfunction function) {
  Call call(Function::k_cuFuncGetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!is_function(call.state(), function)) return CUDA_ERROR_INVALID_HANDLE;
  return give_attribute(call.state(), call.context().device, attribute, value);
}

// How a kernel would run, if it ran.
CUresult berth_sim_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int) {
  Call call(Function::k_cuFuncSetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!is_function(call.state(), function)) return CUDA_ERROR_INVALID_HANDLE;
  return check_setting(attribute);
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

CUresult berth_sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                               int threads,
                                                               std::size_t shared_bytes) {
  Call call(Function::k_cuOccupancyMaxActiveBlocksPerMultiprocessor, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return count_blocks(call, blocks, function, threads, shared_bytes);
}

CUresult berth_sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int threads, std::size_t shared_bytes, unsigned flags) {
  Call call(Function::k_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return count_blocks(call, blocks, function, threads, shared_bytes);
}

CUresult berth_sim_cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                        CUdevice device) {
  Call call(Function::k_cuKernelGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().functions.find(to_handle(kernel)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const int slot = call.state().device_at(device).facts.slot;
  return give_attribute(call.state(), slot, attribute, value);
}

CUresult berth_sim_cuKernelSetAttribute(CUfunction_attribute attribute, int, CUkernel kernel,
                                        CUdevice device) {
  Call call(Function::k_cuKernelSetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().functions.find(to_handle(kernel)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  return check_setting(attribute);
}

}  // namespace berth::sim
