// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Primary Context Management", "Context Management".
#include "sim/call.hpp"
#include "sim/check/leaks.hpp"
#include "sim/fork.hpp"
#include "sim/graph/capture_rules.hpp"

namespace berth::sim {
namespace {

/// The context stack of this thread, without contexts of an earlier simulator.
std::vector<Handle>& stack_of(const State& state) {
  this_thread().enter(state.id);
  return this_thread().stack;
}

}  // namespace

CUresult berth_sim_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Call call(Function::k_cuDevicePrimaryCtxRetain, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (call.state().device_at(device).lost) return CUDA_ERROR_UNKNOWN;
  *context = from_handle<CUcontext>(retain_primary(call.state(), device).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDevicePrimaryCtxRelease(CUdevice device) {
  Call call(Function::k_cuDevicePrimaryCtxRelease, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  Device& owner = state.device_at(device);
  // The context is destroyed after its work. Other threads may retain or release it during the
  // wait.
  while (owner.retains == 1 && owner.primary != 0 && !finish_work(state, owner.primary)) {
  }
  if (owner.retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--owner.retains != 0 || owner.primary == 0) return CUDA_SUCCESS;
  check_leaks(state, *state.contexts.find(owner.primary), call.site());
  destroy_context(state, *state.contexts.find(owner.primary));
  owner.primary = 0;
  return CUDA_SUCCESS;
}

// The device stays retained, but has no context until the next retain.
CUresult berth_sim_cuDevicePrimaryCtxReset(CUdevice device) {
  Call call(Function::k_cuDevicePrimaryCtxReset, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  Device& owner = state.device_at(device);
  while (owner.primary != 0 && !finish_work(state, owner.primary)) {
  }
  if (owner.primary == 0) return CUDA_SUCCESS;
  destroy_context(state, *state.contexts.find(owner.primary));
  owner.primary = 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  Call call(Function::k_cuDevicePrimaryCtxSetFlags, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  Device& owner = call.state().device_at(device);
  owner.primary_flags = flags;
  if (owner.primary != 0) call.state().contexts.find(owner.primary)->flags = flags;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Call call(Function::k_cuDevicePrimaryCtxGetState, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Device& owner = call.state().device_at(device);
  *flags = owner.primary_flags;
  *active = owner.primary != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxPushCurrent(CUcontext context) {
  Call call(Function::k_cuCtxPushCurrent, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().contexts.find(to_handle(context)) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stack_of(call.state()).push_back(to_handle(context));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxPopCurrent(CUcontext* context) {
  Call call(Function::k_cuCtxPopCurrent, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  std::vector<Handle>& stack = stack_of(call.state());
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = from_handle<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxGetCurrent(CUcontext* context) {
  Call call(Function::k_cuCtxGetCurrent, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Handle>& stack = stack_of(call.state());
  *context = stack.empty() ? nullptr : from_handle<CUcontext>(stack.back());
  return CUDA_SUCCESS;
}

CUctx_st* berth_sim_berthSimCurrentContext() {
  if (is_parents_driver()) return nullptr;
  const ThreadState& thread = this_thread();
  const bool is_known = !thread.in_host_function && thread.simulator_id == installed_id();
  return is_known && !thread.stack.empty() ? from_handle<CUcontext>(thread.stack.back()) : nullptr;
}

CUresult berth_sim_cuCtxSetCurrent(CUcontext context) {
  Call call(Function::k_cuCtxSetCurrent, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  std::vector<Handle>& stack = stack_of(call.state());
  const bool known = call.state().contexts.find(to_handle(context)) != nullptr;
  if (context != nullptr && !known) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(to_handle(context));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxGetDevice(CUdevice* device) {
  Call call(Function::k_cuCtxGetDevice, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context().ordinal;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxSynchronize() {
  Call call(Function::k_cuCtxSynchronize, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Handle context = call.context().handle;
  const CUresult refusal = refuse_observation(call.state(), call.context());
  if (refusal != CUDA_SUCCESS) return refusal;
  return call.synchronize(call.state().scheduler.work_in(context), context);
}

CUresult berth_sim_cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Call call(Function::k_cuCtxGetStreamPriorityRange, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  Call call(Function::k_cuCtxEnablePeerAccess, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Context& context = call.context();
  const Context* other = call.state().contexts.find(to_handle(peer));
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (other == nullptr || other == &context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!call.state().config.peer || other->device == context.device)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const DeviceSet bit = device_bit(other->device);
  if ((context.peers & bit) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  context.peers |= bit;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxDisablePeerAccess(CUcontext peer) {
  Call call(Function::k_cuCtxDisablePeerAccess, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Context& context = call.context();
  const Context* other = call.state().contexts.find(to_handle(peer));
  if (other == nullptr || other == &context) return CUDA_ERROR_INVALID_CONTEXT;
  const DeviceSet bit = device_bit(other->device);
  if ((context.peers & bit) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  context.peers &= ~bit;
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
