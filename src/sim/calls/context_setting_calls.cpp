// SPDX-License-Identifier: Apache-2.0
// Settings of contexts that concern kernels, and calls that have nothing to do here: what a program
// sets is kept and told, and has no effect.
// Source: CUDA Driver API, "Context Management", "Profiler Control".
#include <algorithm>
#include <cstddef>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

constexpr std::size_t kStackBytesMax = std::size_t{512} << 10;
constexpr std::size_t kFetchBytesMax = 128;

/// Whether a device of compute capability 9.0 has the limit.
bool is_supported(CUlimit limit) {
  return limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE ||
         limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT ||
         limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY || limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

CUresult check_limit(CUlimit limit) {
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  return is_supported(limit) ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

/// The greatest value.
std::size_t limit_max(const State& state, const Context& context, CUlimit limit) {
  const Device& device = state.devices[static_cast<std::size_t>(context.device)];
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return kStackBytesMax;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return kFetchBytesMax;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return static_cast<std::size_t>(
          device_attribute(state.config, device.facts,
                           CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)
              .value_or(0));
    default:
      return device.memory->bytes_total();
  }
}

CUresult do_nothing(Function function) {
  const Call call(function, Needs::context);
  return call.refusal();
}

}  // namespace

CUresult berth_sim_cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  Call call(Function::k_cuCtxGetLimit, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const CUresult known = check_limit(limit);
  if (known != CUDA_SUCCESS || value == nullptr)
    return known != CUDA_SUCCESS ? known : CUDA_ERROR_INVALID_VALUE;
  *value = call.context().settings.limits[static_cast<std::size_t>(limit)];
  return CUDA_SUCCESS;
}

// "The driver is free to modify the requested value to meet h/w requirements".
CUresult berth_sim_cuCtxSetLimit(CUlimit limit, std::size_t value) {
  Call call(Function::k_cuCtxSetLimit, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const CUresult known = check_limit(limit);
  if (known != CUDA_SUCCESS) return known;
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE || limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
    value = std::min(value, limit_max(call.state(), call.context(), limit));
  else if (value > limit_max(call.state(), call.context(), limit))
    return CUDA_ERROR_INVALID_VALUE;
  call.context().settings.limits[static_cast<std::size_t>(limit)] = value;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxGetCacheConfig(CUfunc_cache* preference) {
  Call call(Function::k_cuCtxGetCacheConfig, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (preference == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *preference = call.context().settings.cache;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxSetCacheConfig(CUfunc_cache preference) {
  Call call(Function::k_cuCtxSetCacheConfig, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (preference < CU_FUNC_CACHE_PREFER_NONE || preference > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  call.context().settings.cache = preference;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxSetFlags(unsigned flags) {
  Call call(Function::k_cuCtxSetFlags, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  call.context().flags = flags;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxResetPersistingL2Cache() {
  return do_nothing(Function::k_cuCtxResetPersistingL2Cache);
}

// No other device writes to the memory of a simulated one.
CUresult berth_sim_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                              CUflushGPUDirectRDMAWritesScope scope) {
  Call call(Function::k_cuFlushGPUDirectRDMAWrites, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const bool is_known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                        (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                         scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult berth_sim_cuProfilerStart() {
  return do_nothing(Function::k_cuProfilerStart);
}

CUresult berth_sim_cuProfilerStop() {
  return do_nothing(Function::k_cuProfilerStop);
}

}  // namespace berth::sim
